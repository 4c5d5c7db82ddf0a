package explain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
)

// oldRecords are those of testdata/records, by file and line.
func oldRecords(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/records/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
			out[fmt.Sprintf("%s:%d", filepath.Base(name), i+1)] = line
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d records", len(out))
	}
	return out
}

// Whatever was recorded once is read without loss and replays.
func TestRecordsOfAllVersions(t *testing.T) {
	for name, line := range oldRecords(t) {
		rec := new(explain.Record)
		if err := json.Unmarshal(line, rec); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if lost := lostIn(tree(t, line), tree(t, again), ""); len(lost) > 0 {
			t.Errorf("%s: lost in reading: %s", name, strings.Join(lost, ", "))
		}
		if v, _, _ := explain.Replay(rec); !v.Identical || !v.Sealed && rec.Origin == nil {
			t.Errorf("%s: replay: %+v", name, v)
		}
	}
}

func tree(t *testing.T, document []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// lostIn names what is in a document and is not, or is otherwise, in another.
func lostIn(in, out any, path string) (lost []string) {
	switch in := in.(type) {
	case map[string]any:
		other, ok := out.(map[string]any)
		if !ok {
			return []string{path}
		}
		for name, value := range in {
			lost = append(lost, lostIn(value, other[name], path+"."+name)...)
		}
	case []any:
		other, ok := out.([]any)
		if !ok || len(other) != len(in) {
			return []string{path}
		}
		for i := range in {
			lost = append(lost, lostIn(in[i], other[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
	default:
		if in != out {
			return []string{path}
		}
	}
	return lost
}

// Their explanations tell all that they know, in every form.
func TestRecordsOfAllVersionsAreExplained(t *testing.T) {
	for name, line := range oldRecords(t) {
		rec := new(explain.Record)
		if err := json.Unmarshal(line, rec); err != nil {
			t.Fatal(err)
		}
		r := explain.Explain(rec, explain.Options{})
		if len(r.Candidates)+len(r.Excluded) != len(rec.Candidates) || (r.Picked == nil) != (rec.Result.Pod == "") {
			t.Errorf("%s: %d candidates, %d excluded, picked %v", name, len(r.Candidates), len(r.Excluded), r.Picked)
		}
		text := squeezed(textOf(t, r, explain.TextOptions{Width: 100, Wide: true}))
		page, _ := textOfHTML(t, htmlOf(t, r, explain.DocumentOptions{All: true}))
		page = squeezed(page)
		markdown := squeezed(shownMarkdown(markdownOf(t, r, explain.DocumentOptions{All: true})))
		for _, fact := range slices.DeleteFunc(facts(r), func(fact string) bool { return r.Origin != nil && notOfLogs(r, fact) }) {
			if !strings.Contains(text, squeezed(fact)) {
				t.Errorf("%s: the text has no %q", name, fact)
			}
		}
		for _, fact := range documentFacts(r) {
			if r.Origin != nil && notOfLogs(r, fact) {
				continue
			}
			if !strings.Contains(page, squeezed(fact)) || !strings.Contains(markdown, squeezed(fact)) {
				t.Errorf("%s: page or Markdown has no %q", name, fact)
			}
		}
	}
}

func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

// notOfLogs are facts that only stand in for what a log doesn't tell.
func notOfLogs(r *explain.Report, fact string) bool {
	return fact == r.Weights.Saturation || fact == "tieSeed"
}
