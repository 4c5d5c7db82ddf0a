package record

import (
	"bytes"
	"errors"
	"io"
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
