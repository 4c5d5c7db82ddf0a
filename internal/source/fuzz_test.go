package source_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
)

// maxFuzzed keeps what a bomb unpacks to below what takes a second.
const maxFuzzed = 8 << 10

// Whatever bytes are read, all ways to read them tell of the same decisions, each once,
// newest first, and so they do when they are packed.
func FuzzRead(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > maxFuzzed {
			t.Skip("longer than is tried")
		}
		text := string(raw)
		sorted, err := listed(t, text, source.Want{})
		streamed, streamErr := listed(t, text, source.Want{AnyOrder: true})
		if (err == nil) != (streamErr == nil) {
			t.Fatalf("sorted: %v; in any order: %v", err, streamErr)
		}
		once(t, sorted)
		if !slices.Equal(names(t, sorted), names(t, streamed)) {
			t.Errorf("sorted:\n%q\nin any order:\n%q", names(t, sorted), names(t, streamed))
		}
		if !slices.IsSortedFunc(sorted, func(a, b *explain.Record) int { return b.Time.Compare(a.Time) }) {
			t.Errorf("not newest first: %q", contents(t, sorted))
		}
		limited(t, text, sorted)
		found(t, text, sorted)
		if _, plain := strings.CutPrefix(text, "\x1f\x8b"); !plain && !strings.HasPrefix(text, "\x28\xb5\x2f\xfd") {
			for _, packed := range []string{zipped(t, text), zstandard(t, text)} {
				if again, _ := listed(t, packed, source.Want{}); !slices.Equal(contents(t, again), contents(t, sorted)) {
					t.Errorf("packed %q, plain %q", contents(t, again), contents(t, sorted))
				}
			}
		}
	})
}

// seeds are texts of all kinds, whole, packed and damaged.
func seeds(f *testing.F) []string {
	llmd, err := os.ReadFile("../llmdlog/testdata/v0.9.0.jsonl.gz")
	if err != nil {
		f.Fatal(err)
	}
	plain := three(f)
	list := []string{
		plain, plain + plain, strings.ToUpper(plain), plain[:len(plain)-50], "", "\n", "\xff\xfe{\x00", "\ufeff" + plain,
		prefixed(plain, "[pod/picker-0/eppctl] "), parted(plain), string(llmd[:min(len(llmd), maxFuzzed)]),
		jsonl(f, running(1, "a"), decision(1, "a"), decision(0, "a")),
		`{"time":"2026-11-30T12:00:00Z","level":"INFO","msg":"request completed","requestID":"a","selectedPod":"pod-1","status":200}`,
		`{"log":"{\"apiVersion\"","stream":"stderr"}` + "\n" + `{"log":"}\n","stream":"stderr"}` + "\n",
	}
	for _, text := range list[:2] {
		list = append(list, zipped(f, text), zstandard(f, text), zipped(f, text)+zipped(f, text))
	}
	for _, text := range list {
		if len(text) > 100 {
			list = append(list, text[:len(text)/2])
		}
	}
	return list
}

// listed are the decisions that a text holds.
func listed(t *testing.T, text string, want source.Want) (list []*explain.Record, err error) {
	t.Helper()
	_, err = open(t, "-", text).Each(t.Context(), want, func(rec *explain.Record) error {
		list = append(list, rec)
		return nil
	})
	return list, err
}

// contents are the decisions as lines, in the order of these.
func contents(t *testing.T, list []*explain.Record) (lines []string) {
	t.Helper()
	for _, rec := range list {
		lines = append(lines, jsonl(t, rec))
	}
	slices.Sort(lines)
	return lines
}

// names are the IDs of decisions, or the lines of those that have none. Of two that
// differ, though they have one ID, it depends on the order which counts.
func names(t *testing.T, list []*explain.Record) (names []string) {
	t.Helper()
	for _, rec := range list {
		name := rec.DecisionID
		if name == "" {
			name = jsonl(t, rec)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func once(t *testing.T, list []*explain.Record) {
	t.Helper()
	seen := map[string]bool{}
	for _, rec := range list {
		if rec.DecisionID != "" && seen[rec.DecisionID] {
			t.Errorf("decision %q is there twice", rec.DecisionID)
		}
		seen[rec.DecisionID] = true
	}
}

// limited holds that a limit takes the first of all.
func limited(t *testing.T, text string, all []*explain.Record) {
	t.Helper()
	const limit = 2
	var want source.Want
	want.Limit = limit
	n := 0
	more, err := open(t, "-", text).Each(t.Context(), want, func(rec *explain.Record) error {
		if n < len(all) && !rec.Time.Equal(all[n].Time) {
			t.Errorf("number %d is of %v, without a limit of %v", n, rec.Time, all[n].Time)
		}
		n++
		return nil
	})
	if n != min(limit, len(all)) || err == nil && more != (len(all) > limit) {
		t.Errorf("%d of %d, more %v, %v", n, len(all), more, err)
	}
}

// found holds that the newest is found, by its name too.
func found(t *testing.T, text string, all []*explain.Record) {
	t.Helper()
	hit, err := open(t, "-", text).Find(t.Context(), record.Latest, 1)
	if (err == nil) != (len(all) > 0) {
		t.Fatalf("latest: %v, and there are %d", err, len(all))
	}
	if err != nil {
		return
	}
	if !hit.Record.Time.Equal(all[0].Time) {
		t.Errorf("latest is of %v, the first of the list of %v", hit.Record.Time, all[0].Time)
	}
	id := all[0].DecisionID
	if id == "" || id == record.Latest {
		return
	}
	_, err = open(t, "-", text).Find(t.Context(), id, 1)
	if _, several := errors.AsType[*record.AmbiguousError](err); err != nil && !several {
		t.Errorf("%q: %v", id, err)
	}
}

// Times far from ours are sorted as others are.
func TestTimesFarAway(t *testing.T) {
	var list []*explain.Record
	for _, year := range []int{2026, 1, 9999, 1600, 2300} {
		rec := decision(0, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Format("2006"))
		rec.Time = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		list = append(list, rec)
	}
	got, err := listed(t, jsonl(t, list...), source.Want{})
	var years []string
	for _, rec := range got {
		years = append(years, rec.RequestID)
	}
	if strings.Join(years, " ") != "9999 2300 2026 1600 0001" || err != nil {
		t.Errorf("%v, %v; want the newest first", years, err)
	}
}
