package record_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

// walked is what a walk through a file visits that the query wants, and what it passed.
func walked(t *testing.T, name string, q record.Query) (ids []string, seen record.Past) {
	t.Helper()
	more, err := record.WalkFile(t.Context(), name, record.Walker{Query: &q, Seen: &seen, Visit: func(rec *explain.Record) bool {
		if q.Wants(rec) {
			ids = append(ids, rec.DecisionID)
		}
		return true
	}})
	if err != nil || !more {
		t.Fatalf("WalkFile(%+v) = %v, %v", q, more, err)
	}
	return ids, seen
}

// A look-up by way of the index finds what reading all of the file finds.
func TestIndexFindsWhatReadingFinds(t *testing.T) {
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	for name, content := range map[string]string{
		"whole":            lines(t, 300),
		"a repeated ID":    lines(t, 100) + lines(t, 100),
		"one decision":     lines(t, 1),
		"nothing":          "",
		"lines of another": "oops\n" + lines(t, 70) + "\n\n{}\n" + lines(t, 3),
		"another spelling": string(bytes.ReplaceAll([]byte(lines(t, 90)), []byte(`{"apiVersion"`), []byte(`{ "apiVersion"`))),
		"torn":             lines(t, 65) + `{"apiVersion":"eppctl/v1","kind":"Decision","decisionID":"x","requestID":"request-9","time":"2026-11-30T12:00:00Z","po`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "decisions-1.jsonl")
			write(t, file, content)
			queries := []record.Query{
				{},
				{ID: "request-000007"},
				{ID: "request-00000"},
				{ID: "00000000-0000-4000-8000-000000000005"},
				{ID: "00000000-0000-4000-8000-00000000000"},
				{ID: "nobody"},
				{Since: at(40)},
				{Until: at(40)},
				{Since: at(60), Until: at(70)},
				{Since: at(5000)},
				{ID: "request-0000", Since: at(50)},
			}
			var plain [][]string
			for _, q := range queries {
				ids, _ := walked(t, file, q)
				plain = append(plain, ids)
			}
			if err := record.WriteIndex(file); err != nil {
				t.Fatal(err)
			}
			for i, q := range queries {
				if ids, _ := walked(t, file, q); !slices.Equal(ids, plain[i]) {
					t.Errorf("%+v: with an index %v, without %v", q, ids, plain[i])
				}
			}
		})
	}
}

// The index is used at all: what it skips is not looked at.
func TestIndexSkips(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions-1.jsonl")
	write(t, file, lines(t, 1000))
	if err := record.WriteIndex(file); err != nil {
		t.Fatal(err)
	}
	if _, seen := walked(t, file, record.Query{Since: start.Add(990 * time.Second)}); seen.Looked > 64 {
		t.Errorf("looked at %d decisions for the last ten", seen.Looked)
	}
	// What an ID query passes is what the file holds, though it reads one line.
	damage(t, file, func(raw []byte) []byte {
		return bytes.Replace(raw, []byte("request-000500"), []byte("request-000xxx"), 1)
	})
	ids, seen := walked(t, file, record.Query{ID: "request-000xxx"})
	if len(ids) != 0 || seen.Looked != 1000 || !seen.Newest.After(seen.Oldest) {
		t.Errorf("found %v, passed %+v: want nothing and 1000 decisions", ids, seen)
	}
}

// An index that does not fit is none.
func TestIndexThatDoesNotFit(t *testing.T) {
	find := record.Query{ID: "request-000007"}
	for name, change := range map[string]func(t *testing.T, file string){
		"the file has grown": func(t *testing.T, file string) {
			damage(t, file, func(raw []byte) []byte { return append(raw, lines(t, 8)...) })
		},
		"another file of that size": func(t *testing.T, file string) {
			damage(t, file, func(raw []byte) []byte {
				half := bytes.IndexByte(raw, '\n') + 1
				return append(slices.Clone(raw[half:]), raw[:half]...)
			})
		},
		"cut off": func(t *testing.T, file string) {
			damage(t, file+record.IndexSuffix, func(raw []byte) []byte { return raw[:len(raw)-5] })
		},
		"another version": func(t *testing.T, file string) {
			damage(t, file+record.IndexSuffix, func(raw []byte) []byte { raw[6]++; return raw })
		},
		"nothing in it": func(t *testing.T, file string) {
			damage(t, file+record.IndexSuffix, func([]byte) []byte { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "decisions-1.jsonl")
			write(t, file, lines(t, 70))
			if err := record.WriteIndex(file); err != nil {
				t.Fatal(err)
			}
			change(t, file)
			ids, _ := walked(t, file, find)
			if len(ids) == 0 {
				t.Error("not found")
			}
			if err := record.WriteIndex(file); err != nil {
				t.Fatal(err)
			}
			if again, seen := walked(t, file, find); !slices.Equal(again, ids) || seen.Damaged > 0 {
				t.Errorf("with the index written anew %v (%+v), want %v", again, seen, ids)
			}
		})
	}
}

// No byte of an index can be changed so that a decision is lost.
func TestIndexDamaged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions-1.jsonl")
	write(t, file, lines(t, 3))
	if err := record.WriteIndex(file); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file + record.IndexSuffix)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := walked(t, file, record.Query{ID: "request-00000"})
	for i := range raw {
		for _, bit := range []byte{1, 0x80} {
			bad := slices.Clone(raw)
			bad[i] ^= bit
			write(t, file+record.IndexSuffix, string(bad))
			if got, _ := walked(t, file, record.Query{ID: "request-00000"}); !slices.Equal(got, want) {
				t.Fatalf("byte %d changed: %v, want %v", i, got, want)
			}
		}
	}
}

// The recorder writes an index beside each file that it closes, and beside those
// that an earlier run has left without.
func TestRecorderWritesIndexes(t *testing.T) {
	r := newRecording(t, 1<<20, 20_000)
	left := filepath.Join(r.dir, "decisions-0.jsonl")
	write(t, left, lines(t, 5))
	stop := r.run(t)
	r.complete(t, 10, 60)
	eventually(t, "the file of an earlier run has an index", func() bool {
		_, err := os.Stat(left + record.IndexSuffix)
		return err == nil
	})
	stop()
	names, err := filepath.Glob(filepath.Join(r.dir, "decisions-*.jsonl"))
	if err != nil || len(names) < 4 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		if _, err := os.Stat(name + record.IndexSuffix); err != nil {
			t.Error(err)
		}
	}
	var found []string
	err = record.NewStore(record.NewRing(record.RingConfig{}), r.files).Walk(context.Background(), record.Query{ID: "request-00003"}, func(rec *explain.Record) bool {
		found = append(found, rec.RequestID)
		return true
	})
	want := []string{"request-000039", "request-000038", "request-000037", "request-000036", "request-000035", "request-000034", "request-000033", "request-000032", "request-000031", "request-000030"}
	if diff := cmp.Diff(want, found); diff != "" || err != nil {
		t.Errorf("%s %v", diff, err)
	}
}

// eventually waits for what a goroutine does on the disk.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func damage(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, string(change(raw)))
}
