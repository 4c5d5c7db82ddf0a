package source_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
)

// running is a decision whose request has not ended.
func running(n int, id string) *explain.Record {
	rec := decision(n, id)
	rec.Outcome = explain.Outcome{State: explain.OutcomePending}
	return rec
}

// A decision counts once, however many copies of it there are, and one that tells the
// outcome counts before one that does not.
func TestCopiesCountOnce(t *testing.T) {
	early := jsonl(t, decision(1, "a"), running(2, "b"))
	late := jsonl(t, decision(1, "a"), decision(2, "b"), decision(3, "c"))
	const rotated = "decisions-20261130T000000.000000000Z.jsonl"
	for name, files := range map[string]map[string]string{
		"a rotated file and its packed copy": {rotated: late, rotated + ".gz": zipped(t, late)},
		"a rotated file and an export":       {rotated: late, "export.jsonl": early},
		"an export and a rotated file":       {"a.jsonl": early, rotated: late},
		"two exports":                        {"1.jsonl": early, "2.jsonl": late},
		"two exports, the later one first":   {"1.jsonl": late, "2.jsonl": early},
		"two exports in one file":            {"all.jsonl": early + late},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range files {
				write(t, filepath.Join(dir, name), content)
			}
			for _, want := range []source.Want{{}, {AnyOrder: true}, {Filter: admin.Filter{Limit: 3}}} {
				r := open(t, dir, "")
				var got []string
				_, err := r.Each(t.Context(), want, func(rec *explain.Record) error {
					got = append(got, rec.RequestID+" "+rec.Outcome.State)
					return nil
				})
				if want.AnyOrder {
					slices.Sort(got)
					slices.Reverse(got)
				}
				if fmt.Sprint(got) != "[c done b done a done]" || err != nil {
					t.Errorf("%+v: %v, %v; want each once, with its outcome", want, got, err)
				}
				left := strings.Count(strings.Join(*r.warnings, "\n"), "decisions were left out, since they are there already: ")
				if left != 1 || len(*r.warnings) != 1 {
					t.Errorf("%+v: warnings %q, want one of what was left out", want, *r.warnings)
				}
			}
			found, err := open(t, dir, "").Find(t.Context(), "b", 1)
			if err != nil || found.Count != 1 || found.Record.Outcome.State != explain.OutcomeDone {
				t.Errorf("Find = %+v, %v; want one decision, with its outcome", found, err)
			}
		})
	}
}

// A limit counts decisions, not their copies, also when there are more than are held.
func TestLimitOfCopies(t *testing.T) {
	var list []*explain.Record
	for n := range 3000 {
		list = append(list, decision(n, fmt.Sprint(n)))
	}
	text := jsonl(t, list...)
	ids, more, err := open(t, "-", text+text+text).ids(t, admin.Filter{Limit: 2500})
	if len(ids) != 2500 || ids[0] != "2999" || ids[2499] != "500" || !more || err != nil {
		t.Errorf("%d decisions, more %v, %v; want the newest 2500 and that there are more", len(ids), more, err)
	}
}

// Of decisions that nobody gave an ID each counts.
func TestDecisionsWithoutIDs(t *testing.T) {
	one, other := decision(1, "a"), decision(2, "b")
	one.DecisionID, other.DecisionID = "", ""
	if ids, _, err := open(t, "-", jsonl(t, one, other)).ids(t, admin.Filter{}); len(ids) != 2 || err != nil {
		t.Errorf("%v, %v; want both", ids, err)
	}
}

// Of a directory what can be read is read, and one warning names what can't be.
func TestUnreadableFiles(t *testing.T) {
	const rotated = "decisions-20261130T000000.000000000Z.jsonl"
	for _, tc := range []struct {
		name          string
		good, bad     []string // files
		warning, fail string   // "" = none
	}{
		{"one of two", []string{"a.jsonl"}, []string{"b.jsonl"}, "skipped: read decisions: open ", ""},
		{"beside a rotated one", []string{rotated}, []string{"b.jsonl"}, "b.jsonl: no such file", ""},
		{"most of them", []string{"a.jsonl"}, []string{"b.jsonl", "c.jsonl"}, "2 files skipped, the first: read decisions: open ", ""},
		{"the only one", nil, []string{"b.jsonl"}, "", "b.jsonl: no such file"},
		{"beside what is none", []string{"README"}, []string{"b.jsonl"}, "", "b.jsonl: no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range tc.good {
				content := three(t)
				if name == "README" {
					content = "read me\n"
				}
				write(t, filepath.Join(dir, name), content)
			}
			for _, name := range tc.bad {
				write(t, filepath.Join(dir, name), three(t))
			}
			r := open(t, dir, "")
			for _, name := range tc.bad { // for a user who may read everything no mode forbids it
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			ids, _, err := r.ids(t, admin.Filter{})
			if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Fatalf("error %v, want %q", err, tc.fail)
			}
			if tc.fail == "" && len(ids) != 3 {
				t.Errorf("%d decisions, want those of what can be read", len(ids))
			}
			if got := strings.Join(*r.warnings, "\n"); (got != "") != (tc.warning != "") || !strings.Contains(got, tc.warning) {
				t.Errorf("warnings %q, want %q", got, tc.warning)
			}
			if _, err := r.Find(t.Context(), record.Latest, 1); (err != nil) != (tc.fail != "") {
				t.Errorf("Find: %v, want %q", err, tc.fail)
			}
		})
	}
}
