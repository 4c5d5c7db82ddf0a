package record_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

// lines is n decisions as JSON Lines.
func lines(t testing.TB, n int) string {
	t.Helper()
	ring := record.NewRing(record.RingConfig{})
	var out bytes.Buffer
	for i := range n {
		rec, _ := ring.Load(mustAppend(t, ring, plainEntry(i, 2)))
		if err := record.Encode(&out, rec); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// readAll returns the request IDs and the errors of all lines.
func readAll(in io.Reader) (ids, problems []string) {
	r := record.NewReader(in)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return ids, problems
		}
		if err != nil {
			problems = append(problems, err.Error())
			if _, ok := errors.AsType[*record.LineError](err); !ok {
				return ids, problems
			}
			continue
		}
		ids = append(ids, rec.RequestID)
	}
}

func TestReaderNamesLineAndPlace(t *testing.T) {
	one := strings.TrimSuffix(lines(t, 1), "\n")
	with := func(old, replacement string) string {
		if !strings.Contains(one, old) {
			t.Fatalf("no %s in %s", old, one)
		}
		return strings.Replace(one, old, replacement, 1)
	}
	for _, tc := range []struct {
		name, line, want string
	}{
		{"not JSON", "oops", `line 2: column 1: not JSON: invalid character 'o' looking for beginning of value`},
		{"another document", `{"apiVersion":"eppctl/v1","kind":"Explanation"}`, `line 2: kind: must be "Decision", got "Explanation": write decisions with 'eppctl decisions -o jsonl'`},
		{"a later version", with("eppctl/v1", "eppctl/v2"), `line 2: apiVersion: must be "eppctl/v1", got "eppctl/v2": use an eppctl of the version that wrote it`},
		{"some other JSON", `{"level":"INFO"}`, `line 2: no "apiVersion" and "kind": not a decision; write one a line with 'eppctl decisions -o jsonl'`},
		{"null", `null`, `line 2: no "apiVersion" and "kind": not a decision; write one a line with 'eppctl decisions -o jsonl'`},
		{"a string for a number", with(`"promptTokens":4096`, `"promptTokens":"x"`), `request.promptTokens: must be a number (int), got a JSON string`},
		{"a pick that is no candidate", with(`"index":`, `"index":7,"was":`), `line 2: result.index: 7 is none of the 2 candidates`},
		{"an order of no candidates", with(`"order":[`, `"order":[-1,`), `line 2: result.order[0]: -1 is none of the 2 candidates`},
		{"a time that is none", with(`"time":"2026`, `"time":"x`), `line 2: not a decision: `},
		{"too long", `"` + strings.Repeat("x", record.MaxLine) + `"`, `line 2: longer than 16 MiB, the most that is read of a line`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ids, problems := readAll(strings.NewReader(one + "\n" + tc.line + "\n\n" + one + "\n"))
			if diff := cmp.Diff([]string{"request-000000", "request-000000"}, ids); diff != "" {
				t.Errorf("the lines around it: %s", diff)
			}
			if len(problems) != 1 || !strings.Contains(problems[0], tc.want) {
				t.Errorf("got %q, want one error with %q", problems, tc.want)
			}
		})
	}
}

func TestReaderToleratesLaterFields(t *testing.T) {
	in := strings.Replace(lines(t, 1), `{"apiVersion"`, `{"region":{"name":"eu"},"apiVersion"`, 1)
	if ids, problems := readAll(strings.NewReader(in)); len(ids) != 1 || problems != nil {
		t.Errorf("got %v, %v; want the decision", ids, problems)
	}
}

func TestReaderReportsATornLine(t *testing.T) {
	whole := lines(t, 3)
	last := strings.LastIndex(whole[:len(whole)-1], "\n") + 1
	for _, cut := range []int{last + 1, last + 100, len(whole) - 2} {
		r := record.NewReader(strings.NewReader(whole[:cut]))
		for range 2 {
			if _, err := r.Next(); err != nil {
				t.Fatalf("before the torn line: %v", err)
			}
		}
		_, err := r.Next()
		bad, ok := errors.AsType[*record.LineError](err)
		if !errors.Is(err, record.ErrTorn) || !ok || bad.Line != 3 {
			t.Errorf("cut at %d of %d: %v, want line 3 torn", cut, len(whole), err)
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("after the torn line: %v, want EOF", err)
		}
	}
	t.Run("only the newline is missing", func(t *testing.T) {
		if ids, problems := readAll(strings.NewReader(strings.TrimSuffix(whole, "\n"))); len(ids) != 3 || problems != nil {
			t.Errorf("got %v, %v; want three decisions", ids, problems)
		}
	})
}

func TestReaderPassesOnTheInputsError(t *testing.T) {
	broken := errors.New("connection reset")
	_, problems := readAll(io.MultiReader(strings.NewReader(lines(t, 1)), iotest.ErrReader(broken)))
	if diff := cmp.Diff([]string{"read line 2: connection reset"}, problems); diff != "" {
		t.Error(diff)
	}
}

func TestEncodeIsOneWrite(t *testing.T) {
	w := &countingWriter{}
	ring := record.NewRing(record.RingConfig{})
	rec, _ := ring.Load(mustAppend(t, ring, plainEntry(1, 500)))
	if err := record.Encode(w, rec); err != nil || w.calls != 1 || !bytes.HasSuffix(w.last, []byte("}\n")) {
		t.Errorf("Encode: %v after %d writes, want one that ends the line", err, w.calls)
	}
	rec.TimeScale = *new(float64) / *new(float64) // NaN
	if err := record.Encode(w, rec); err == nil || !strings.Contains(err.Error(), rec.DecisionID) || w.calls != 1 {
		t.Errorf("Encode of what JSON can't hold: %v, want an error that names the decision and nothing written", err)
	}
}

type countingWriter struct {
	calls int
	last  []byte
}

func (w *countingWriter) Write(b []byte) (int, error) {
	w.calls++
	w.last = bytes.Clone(b)
	return len(b), nil
}

// FuzzReader: whatever stands in a file, reading it ends, does not panic, and
// what is read can be replayed or says why not.
func FuzzReader(f *testing.F) {
	whole := lines(f, 2)
	f.Add([]byte(whole))
	f.Add([]byte(whole[:len(whole)-40]))
	f.Add([]byte("\n\n{}\nnull\n[]\n"))
	f.Add([]byte(`{"apiVersion":"eppctl/v1","kind":"Decision","candidates":[{}],"result":{"index":0}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := record.NewReader(bytes.NewReader(in))
		for n := 0; ; n++ {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				if n > bytes.Count(in, []byte("\n"))+1 {
					t.Fatalf("%d results from %d lines", n, bytes.Count(in, []byte("\n"))+1)
				}
				return
			}
			if err != nil {
				if _, ok := errors.AsType[*record.LineError](err); !ok {
					t.Fatalf("%v is no LineError", err)
				}
				continue
			}
			if v, _, _ := explain.Replay(rec); !v.Identical && v.Difference == "" {
				t.Fatal("not identical, and no difference named")
			}
		}
	})
}
