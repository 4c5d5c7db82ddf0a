package record

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
)

func lines(t *testing.T, ids ...string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	for i, id := range ids {
		request, decision, _ := strings.Cut(id, "/")
		rec := &explain.Record{
			APIVersion: explain.APIVersion, Kind: explain.KindDecision, RequestID: request, DecisionID: decision,
			Time: time.Unix(int64(1000+i), 0).UTC(), Policy: explain.PolicyScores,
			Result: explain.Result{Index: -1},
		}
		if err := Encode(&b, rec); err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

func TestSearch(t *testing.T) {
	for _, tc := range []struct {
		name, id string
		nth      int
		want     string // decision ID
		count    int
	}{
		{"a whole request ID", "abc", 0, "d1", 1},
		{"a whole ID is not taken for a prefix of others", "ab", 0, "d2", 1},
		{"a unique prefix", "xy", 0, "d5", 1},
		{"a decision ID", "d3", 0, "d3", 1},
		{"the newest of a repeated ID", "twice", 0, "d4", 2},
		{"the one before it", "twice", 2, "d3", 2},
		{"latest", Latest, 0, "d5", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec, count, err := Search(lines(t, "abc/d1", "ab/d2", "twice/d3", "twice/d4", "xyz/d5"), tc.id, tc.nth)
			if err != nil || rec.DecisionID != tc.want || count != tc.count {
				t.Errorf("Search(%q, %d) = %+v, %d, %v; want %s, %d", tc.id, tc.nth, rec, count, err, tc.want, tc.count)
			}
		})
	}
	t.Run("latest is the newest, whatever a client has called its request", func(t *testing.T) {
		if rec, _, err := Search(lines(t, "latest/d1", "abc/d2"), Latest, 0); err != nil || rec.DecisionID != "d2" {
			t.Errorf("%+v, %v; want d2", rec, err)
		}
	})
	t.Run("ambiguous", func(t *testing.T) {
		_, _, err := Search(lines(t, "abc/d1", "abd/d2"), "ab", 0)
		e, ok := errors.AsType[*AmbiguousError](err)
		if !ok || len(e.Candidates) != 2 || e.Candidates[0] != "abd" {
			t.Errorf("error %v, want both candidates, newest first", err)
		}
	})
	t.Run("missing says what was read", func(t *testing.T) {
		_, _, err := Search(lines(t, "abc/d1", "abd/d2"), "zz", 0)
		e, ok := errors.AsType[*MissingError](err)
		if !ok || e.Read != 2 || !e.Oldest.Before(e.Newest) {
			t.Errorf("error %#v", err)
		}
	})
	t.Run("nothing at all", func(t *testing.T) {
		if _, _, err := Search(strings.NewReader(""), Latest, 0); err == nil {
			t.Error("no error")
		}
	})
}

func TestEach(t *testing.T) {
	visited := func(r io.Reader, q Query, stop string) (ids []string, err error) {
		err = Each(r, q, func(rec *explain.Record) error {
			ids = append(ids, rec.DecisionID)
			if rec.DecisionID == stop {
				return errStop
			}
			return nil
		})
		return ids, err
	}
	all := func() io.Reader { return lines(t, "abc/d1", "ab/d2", "twice/d3", "twice/d4") }
	torn := io.MultiReader(lines(t, "abc/d1", "ab/d2"), strings.NewReader(`{"apiVersion":"eppctl/v1","ki`))
	broken := io.MultiReader(lines(t, "abc/d1"), strings.NewReader("nonsense\n"), lines(t, "ab/d2"))
	for _, tc := range []struct {
		name string
		in   io.Reader
		q    Query
		stop string
		want []string
		err  string
	}{
		{"in the order of the file", all(), Query{}, "", []string{"d1", "d2", "d3", "d4"}, ""},
		{"a limit does not count", all(), Query{Limit: 1}, "", []string{"d1", "d2", "d3", "d4"}, ""},
		{"only what the query wants", all(), Query{Since: time.Unix(1002, 0)}, "", []string{"d3", "d4"}, ""},
		{"an ID as a prefix", all(), Query{ID: "ab"}, "", []string{"d1", "d2"}, ""},
		{"until visit has enough", all(), Query{}, "d2", []string{"d1", "d2"}, errStop.Error()},
		{"all before a torn line", torn, Query{}, "", []string{"d1", "d2"}, "line 3: " + ErrTorn.Error()},
		{"up to a line that is none", broken, Query{}, "", []string{"d1"}, "line 2: "},
		{"nothing", strings.NewReader(""), Query{}, "", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := visited(tc.in, tc.q, tc.stop)
			if !slices.Equal(got, tc.want) || (err != nil) != (tc.err != "") || (err != nil && !strings.HasPrefix(err.Error(), tc.err)) {
				t.Errorf("visited %v, %v; want %v, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

var errStop = errors.New("enough")

// Each holds one decision at a time: a reader that makes lines as they are read
// never gets ahead of the visits by more than its buffer.
func TestEachStreams(t *testing.T) {
	const decisions = 2000
	var one bytes.Buffer
	if _, err := one.ReadFrom(lines(t, "abc/d1")); err != nil {
		t.Fatal(err)
	}
	read, visits, ahead := 0, 0, 0
	in := readerFunc(func(p []byte) (int, error) {
		if read == decisions {
			return 0, io.EOF
		}
		read++
		return copy(p, one.Bytes()), nil
	})
	err := Each(in, Query{}, func(*explain.Record) error {
		visits++
		ahead = max(ahead, read-visits)
		return nil
	})
	if err != nil || visits != decisions || ahead > 1 {
		t.Errorf("%d visits, at most %d lines ahead of them, %v; want %d and 1", visits, ahead, err, decisions)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestSelect(t *testing.T) {
	for _, tc := range []struct {
		name string
		q    Query
		want []string
	}{
		{"newest first", Query{}, []string{"d5", "d4", "d3", "d2", "d1"}},
		{"the newest of many", Query{Limit: 2}, []string{"d5", "d4"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := io.MultiReader(lines(t, "a/d1", "b/d2", "c/d3", "d/d4", "e/d5"), strings.NewReader(`{"torn`))
			list, err := Select(in, tc.q)
			var got []string
			for _, rec := range list {
				got = append(got, rec.DecisionID)
			}
			if !errors.Is(err, ErrTorn) || !slices.Equal(got, tc.want) {
				t.Errorf("selected %v, %v; want %v and the torn line", got, err, tc.want)
			}
		})
	}
}
