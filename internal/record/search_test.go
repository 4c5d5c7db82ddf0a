package record

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// find shows decisions (request ID/decision ID, a second apart) to a finder.
func find(id string, nth int, shown ...string) (*explain.Record, int, error) {
	f := Finder{ID: id}
	for i, ids := range shown {
		request, decision, _ := strings.Cut(ids, "/")
		rec := &explain.Record{RequestID: request, DecisionID: decision, Time: time.Unix(int64(1000+i), 0).UTC()}
		f.Past.Passed(1, rec.Time, rec.Time)
		f.See(rec)
	}
	return f.Result(nth)
}

func TestFinder(t *testing.T) {
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
			rec, count, err := find(tc.id, tc.nth, "abc/d1", "ab/d2", "twice/d3", "twice/d4", "xyz/d5")
			if err != nil || rec.DecisionID != tc.want || count != tc.count {
				t.Errorf("find(%q, %d) = %+v, %d, %v; want %s, %d", tc.id, tc.nth, rec, count, err, tc.want, tc.count)
			}
		})
	}
	t.Run("latest is the newest, whatever a client has called its request", func(t *testing.T) {
		if rec, _, err := find(Latest, 0, "latest/d1", "abc/d2"); err != nil || rec.DecisionID != "d2" {
			t.Errorf("%+v, %v; want d2", rec, err)
		}
	})
	t.Run("ambiguous", func(t *testing.T) {
		_, _, err := find("ab", 0, "abc/d1", "abd/d2")
		e, ok := errors.AsType[*AmbiguousError](err)
		if !ok || len(e.Candidates) != 2 || e.Candidates[0] != "abd" {
			t.Errorf("error %v, want both candidates, newest first", err)
		}
	})
	t.Run("missing says what was read", func(t *testing.T) {
		_, _, err := find("zz", 0, "abc/d1", "abd/d2")
		e, ok := errors.AsType[*MissingError](err)
		if !ok || e.Read != 2 || !e.Oldest.Before(e.Newest) {
			t.Errorf("error %#v", err)
		}
	})
	t.Run("nothing at all", func(t *testing.T) {
		if _, _, err := find(Latest, 0); err == nil {
			t.Error("no error")
		}
	})
	t.Run("more than are kept: the newest are", func(t *testing.T) {
		shown := make([]string, 5*maxMatches)
		for i := range shown {
			shown[i] = fmt.Sprint("same/d", i)
		}
		shown[len(shown)-1] = "same/last"
		if rec, count, err := find("same", 1, shown...); err != nil || rec.DecisionID != "last" || count < maxMatches {
			t.Errorf("%+v, %d, %v", rec, count, err)
		}
	})
	t.Run("a decision that is shown twice is one, with its outcome", func(t *testing.T) {
		f := Finder{ID: "a"}
		f.See(&explain.Record{RequestID: "a", DecisionID: "d", Outcome: explain.Outcome{State: explain.OutcomePending}})
		f.See(&explain.Record{RequestID: "a", DecisionID: "d", Outcome: explain.Outcome{State: explain.OutcomeDone}})
		if rec, count, err := f.Result(1); err != nil || rec.Outcome.State != explain.OutcomeDone || count != 1 {
			t.Errorf("%+v, %d, %v; want one that is done", rec, count, err)
		}
	})
	t.Run("of the picks for one request the primary one", func(t *testing.T) {
		f := Finder{ID: "a"}
		f.See(&explain.Record{RequestID: "a", DecisionID: "prefill", Origin: &explain.Origin{}})
		f.See(&explain.Record{RequestID: "a", DecisionID: "decode", Origin: &explain.Origin{Primary: true}})
		if rec, count, err := f.Result(1); err != nil || rec.DecisionID != "decode" || count != 2 {
			t.Errorf("%+v, %d, %v; want decode of 2", rec, count, err)
		}
	})
}
