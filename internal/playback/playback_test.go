package playback

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
)

func fleet(t *testing.T) []*explain.Record {
	t.Helper()
	f, err := os.Open("../../testdata/decisions/fleet.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []*explain.Record
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rec := new(explain.Record)
		if err := json.Unmarshal(lines.Bytes(), rec); err != nil {
			t.Fatal(err)
		}
		list = append(list, rec)
	}
	return list
}

func TestRecordedFleet(t *testing.T) {
	list := fleet(t)
	r := New(list)
	if r.From().After(r.Until()) {
		t.Fatalf("from %v until %v", r.From(), r.Until())
	}
	s := r.At(r.Until())
	if s.Source != explain.SourceRecords || len(s.Pods) != 4 || len(s.Missing) == 0 || s.TimeScale != 20 || s.Router.MaxQueue != 20 {
		t.Errorf("snapshot %+v", s)
	}
	for k, w := range s.Windows {
		decisions, refused := 0, 0
		picks := map[string]int{}
		for _, rec := range list {
			if rec.Time.After(r.Until().Add(-time.Duration(w.Seconds) * time.Second)) {
				decisions++
				picks[rec.Result.Pod]++
				if rec.Result.Refused != "" {
					refused++
				}
			}
		}
		if w.Decisions != decisions || w.Refused != refused {
			t.Errorf("window of %d s: %d decisions, %d refused; the records have %d and %d", w.Seconds, w.Decisions, w.Refused, decisions, refused)
		}
		for _, p := range s.Pods {
			if p.Picks[k] != picks[p.Pod] {
				t.Errorf("window of %d s: %s has %d picks, the records %d", w.Seconds, p.Pod, p.Picks[k], picks[p.Pod])
			}
		}
	}
	if s.Windows[2].Completed == 0 || s.Windows[2].TTFTP95 == nil || s.Windows[2].MatchRatio == nil {
		t.Errorf("the longest window knows no ends: %+v", s.Windows[2])
	}
	for _, p := range s.Pods {
		if p.State != explain.PodDown || p.CachedBlocks != nil || p.Adapters.Loaded != nil || p.Stream != nil {
			t.Errorf("%s is %s, and knows what no record tells: %+v", p.Pod, p.State, p)
		}
	}
	if s.Verdict.Code != explain.VerdictNoEndpoints {
		t.Errorf("verdict %+v", s.Verdict)
	}
}

// A moment looks the same whichever way one came to it, and whatever the order of the
// records.
func TestMomentsDoNotDependOnTheWay(t *testing.T) {
	list := fleet(t)
	one := New(list)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	two := New(list)
	for at := one.From(); at.Before(one.Until()); at = at.Add(time.Second) {
		one.At(at)
	}
	for back := range 20 {
		at := one.Until().Add(-time.Duration(back*7) * time.Second)
		a, b := one.At(at), two.At(at)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("at %v (-stepped +jumped):\n%s", at, diff)
		}
	}
}

func TestRows(t *testing.T) {
	r := New(fleet(t))
	before := r.From().Add(-time.Second)
	if rows := r.Rows(before, 10); len(rows) != 0 {
		t.Errorf("%d rows before the first", len(rows))
	}
	if s := r.At(before); len(s.Pods) != 0 || s.Windows[2].Decisions != 0 {
		t.Errorf("something is known before the first decision: %+v", s)
	}
	first := r.Rows(r.From(), 10)
	if len(first) != 1 || first[0].State != explain.OutcomePending || first[0].TTFTSeconds != nil {
		t.Errorf("the moment of the first decision knows its end: %+v", first)
	}
	all := r.Rows(r.Until(), 100)
	for i := 1; i < len(all); i++ {
		if all[i].Time.After(all[i-1].Time) {
			t.Fatalf("row %d is newer than the one before", i)
		}
	}
	if len(all) != len(r.records) {
		t.Errorf("%d rows of %d decisions", len(all), len(r.records))
	}
}
