package source_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// decision is one that arrived n seconds after the start.
func decision(n int, id string) *explain.Record {
	return &explain.Record{
		APIVersion: explain.APIVersion, Kind: explain.KindDecision, RequestID: id, DecisionID: "d-" + id,
		Time: start.Add(time.Duration(n) * time.Second), Policy: explain.PolicyScores, TimeScale: 1,
		Candidates: []explain.Candidate{{Pod: "pod-1", Endpoint: "10.0.0.1:8000"}},
		Result:     explain.Result{Pod: "pod-1", Endpoint: "10.0.0.1:8000", Order: []int{0}},
		Outcome:    explain.Outcome{State: explain.OutcomeDone, Status: 200},
	}
}

// jsonl is decisions as JSON Lines.
func jsonl(t testing.TB, list ...*explain.Record) string {
	t.Helper()
	var b strings.Builder
	for _, rec := range list {
		if err := record.Encode(&b, rec); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// three decisions, in the order of completion.
func three(t testing.TB) string {
	return jsonl(t, decision(1, "abc-1"), decision(3, "abc-2"), decision(2, "xyz"))
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstandard(t testing.TB, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return string(w.EncodeAll([]byte(text), nil))
}

func write(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reader is a source with what it warned of.
type reader struct {
	source.Source
	warnings *[]string
}

func open(t testing.TB, path, stdin string) reader {
	t.Helper()
	warnings := new([]string)
	src, err := source.Open(path, source.Options{
		Stdin: strings.NewReader(stdin), Now: func() time.Time { return start.Add(time.Minute) },
		Warn: func(text string) { *warnings = append(*warnings, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return reader{src, warnings}
}

// ids are the request IDs that a filter lets through, in the order of the visits.
func (r reader) ids(t testing.TB, f admin.Filter) (ids []string, more bool, err error) {
	t.Helper()
	more, err = r.Each(t.Context(), source.Want{Filter: f}, func(rec *explain.Record) error {
		ids = append(ids, rec.RequestID)
		return nil
	})
	return ids, more, err
}

func file(t testing.TB, content string) string {
	return write(t, filepath.Join(t.TempDir(), "input"), content)
}
