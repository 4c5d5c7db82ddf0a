package record_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// named is a decision with the given IDs.
func named(n int, requestID string, decision byte) *record.Entry {
	e := plainEntry(n, 3)
	e.RequestID = requestID
	e.DecisionID = [16]byte{0: decision, 6: 0x40, 8: 0x80, 15: byte(n)}
	return e
}

func TestFindByID(t *testing.T) {
	ring := record.NewRing(record.RingConfig{})
	for n, e := range []*record.Entry{
		named(0, "chat", 0xab), named(1, "chat-1", 0xab), named(2, "chat-12", 0xcd), named(3, "chat-1", 0xce),
	} {
		_ = n
		mustAppend(t, ring, e)
	}
	for _, tc := range []struct {
		name, id string
		want     []string
		exact    bool
	}{
		{"an exact request ID pushes longer ones aside", "chat", []string{"chat"}, true},
		{"a repeated request ID, newest first", "chat-1", []string{"chat-1", "chat-1"}, true},
		{"a prefix of several", "cha", []string{"chat-1", "chat-12", "chat-1", "chat"}, false},
		{"a unique prefix", "chat-12", []string{"chat-12"}, true},
		{"a decision ID", "ce000000-0000-4000-8000-000000000003", []string{"chat-1"}, true},
		{"a prefix of decision IDs", "ab0", []string{"chat-1", "chat"}, false},
		{"none", "chat-123", []string{}, false},
		{"longer than any", strings.Repeat("c", 500), []string{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, err := record.NewStore(ring, nil).Find(t.Context(), record.Query{ID: tc.id})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, ids(found.Records)); diff != "" || found.Exact != tc.exact || found.More {
				t.Errorf("exact %v, more %v, %s", found.Exact, found.More, diff)
			}
		})
	}
}

func TestFindFilters(t *testing.T) {
	ring := record.NewRing(record.RingConfig{})
	for n := range 10 {
		e := plainEntry(n, 3)
		e.Picked = n % 3
		if n == 4 {
			e.Model, e.Inputs.Request.Model, e.Inputs.Request.Adapter = "mistral", "mistral-7b", ""
		}
		if n == 5 {
			e.Decision.DecidedBy = score.ByTieSeed
		}
		if n == 6 {
			e.Decision.Relaxed = true
		}
		if n == 7 {
			e.Picked, e.Decision.Refused = -1, score.Saturated
		}
		mustAppend(t, ring, e)
	}
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	for _, tc := range []struct {
		name string
		q    record.Query
		want []int
	}{
		{"by pod", record.Query{Pod: "vllm-llama-8b-00002"}, []int{8, 5, 2}},
		{"by endpoint", record.Query{Pod: "10.0.0.0:8000"}, []int{9, 6, 3, 0}},
		{"by model as asked for", record.Query{Model: "mistral"}, []int{4}},
		{"by model as resolved", record.Query{Model: "mistral-7b"}, []int{4}},
		{"by adapter and limit", record.Query{Adapter: "fr", Limit: 2}, []int{9, 8}},
		{"by time", record.Query{Since: at(3), Until: at(5)}, []int{4, 3}},
		{"ties", record.Query{Ties: true}, []int{5}},
		{"relaxed", record.Query{Relaxed: true}, []int{6}},
		{"refused", record.Query{Refused: true}, []int{7}},
		{"none", record.Query{Pod: "nobody"}, []int{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, err := record.NewStore(ring, nil).Find(t.Context(), tc.q)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{}
			for _, n := range tc.want {
				want = append(want, fmt.Sprintf("request-%06d", n))
			}
			if diff := cmp.Diff(want, ids(found.Records)); diff != "" || found.More != (tc.q.Limit > 0) {
				t.Errorf("more %v, %s", found.More, diff)
			}
		})
	}
}

// A look-up falls through to the files, and finds nothing twice.
func TestFindFallsThroughToFiles(t *testing.T) {
	r := newRecording(t, 1, 100_000)
	stop := r.run(t)
	const n = 800
	for i := range n {
		r.complete(t, i, i+1)
		for r.files.Stats().Written < uint64(i) { // the ring is tiny: let the writer keep up
			time.Sleep(time.Millisecond)
		}
	}
	stop()
	inRing := r.ring.Stats().Records
	if inRing >= n/2 || len(r.names(t)) < 2 {
		t.Fatalf("%d in the ring, files %v: not what this test is about", inRing, r.names(t))
	}
	t.Run("everything once, newest first", func(t *testing.T) {
		next := n - 1
		if err := r.Walk(t.Context(), record.Query{}, func(rec *explain.Record) bool {
			if want := fmt.Sprintf("request-%06d", next); rec.RequestID != want {
				t.Fatalf("got %s, want %s", rec.RequestID, want)
			}
			next--
			return true
		}); err != nil || next != -1 {
			t.Errorf("Walk: %v, %d left", err, next+1)
		}
	})
	t.Run("one that is in a file only", func(t *testing.T) {
		found, err := r.Find(t.Context(), record.Query{ID: "request-000005"})
		if diff := cmp.Diff([]string{"request-000005"}, ids(found.Records)); diff != "" || err != nil {
			t.Fatal(err, diff)
		}
		if v, _, _ := explain.Replay(found.Records[0]); !v.Identical {
			t.Error(v.Difference)
		}
	})
	t.Run("one that is not there, and how far back was looked", func(t *testing.T) {
		found, err := r.Find(t.Context(), record.Query{ID: "request-x"})
		if err != nil || len(found.Records) != 0 || found.Scanned < n {
			t.Fatalf("%v, %v, scanned %d", err, ids(found.Records), found.Scanned)
		}
		c := found.Coverage
		if !c.Recording || !c.Oldest().Equal(start) || c.Files.Files != len(r.names(t)) || c.Ring.Evicted == 0 || c.Ring.Unsaved != 0 {
			t.Errorf("%+v: want files back to %v and nothing lost", c, start)
		}
	})
	t.Run("a damaged line is counted and named", func(t *testing.T) {
		name := r.names(t)[0]
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data[10] = 0
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := r.Find(t.Context(), record.Query{Limit: n})
		if err != nil || found.Damaged != 1 || len(found.Records) != n-1 || found.FirstDamage == nil {
			t.Errorf("%v, %d damaged, %d found, %v", err, found.Damaged, len(found.Records), found.FirstDamage)
		}
	})
	t.Run("an ended context ends the search", func(t *testing.T) {
		cause := errors.New("client gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := r.Find(ctx, record.Query{ID: "x"}); !errors.Is(err, cause) {
			t.Errorf("Find = %v, want the cause", err)
		}
	})
}

// Whatever stands in a file, read from the end it is the same lines.
func TestBackwardIsForwardReversed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"", "a", "some line", strings.Repeat("x", 300<<10)})).Draw(t, "lines")
		in := strings.Join(parts, "\n")
		if rapid.Bool().Draw(t, "final newline") {
			in += "\n"
		}
		lines := record.Backward(strings.NewReader(in), int64(len(in)))
		var got []string
		for {
			line, whole, err := lines.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if last := len(got) == 0; whole == last && len(line) > 0 {
				t.Fatalf("line %d from the end: whole = %v", len(got), whole)
			}
			got = append(got, string(line))
		}
		slices.Reverse(got)
		if want := strings.Split(in, "\n"); in != "" && !slices.Equal(want, got) {
			t.Fatalf("%d lines, want %d", len(got), len(want))
		}
	})
	t.Run("a line beyond the limit is passed over", func(t *testing.T) {
		in := "first\n" + strings.Repeat("x", record.MaxLine+1) + "\nlast\n"
		lines := record.Backward(strings.NewReader(in), int64(len(in)))
		var got []string
		for {
			line, _, err := lines.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				line = []byte("too long")
			}
			got = append(got, string(bytes.Clone(line)))
		}
		if diff := cmp.Diff([]string{"", "last", "too long", "first"}, got); diff != "" {
			t.Error(diff)
		}
	})
}
