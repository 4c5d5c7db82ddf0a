package tui

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/eppctl/eppctl/explain"
)

// Answers to older questions are dropped.
func TestLateAnswers(t *testing.T) {
	m := still(80, 24, Look{}, hot())
	list := records(t)
	m.askWhy("first")
	first := m.why.asked
	m.askWhy("second")
	m.Update(decisionMsg{first, list[0], nil})
	if m.why.rec != nil {
		t.Error("the answer to the question before was taken")
	}
	m.Update(decisionMsg{m.why.asked, list[1], nil})
	if m.why.rec != list[1] {
		t.Error("the answer was not taken")
	}
	m.askTrial()
	old := m.whatIf.asked
	m.askTrial()
	m.Update(trialMsg{old, &trialResult{decisions: 1}})
	if m.whatIf.result != nil {
		t.Error("the result for other weights was taken")
	}
}

// What is tried is what explain computes for each decision alone.
func TestTrialAgreesWithWhatIf(t *testing.T) {
	list := records(t)
	changes := 0
	for at, steps := range []int{-11, 14, 18, 15, 19} {
		knobs := knobsOf(&list[0].Weights)
		turn(knobs, at, steps)
		sum := 0.0
		for _, k := range knobs[:5] {
			sum += k.try
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("after turning %s the weights sum to %v", knobs[at].key, sum)
		}
		got := try(list, knobs)
		want := 0
		for _, rec := range list {
			var edits []explain.Edit
			for _, k := range knobs[:5] {
				edits = append(edits, explain.Edit{Key: "weights." + k.key, Value: fmt.Sprint(k.try)})
			}
			c, err := explain.WhatIf(rec, edits)
			if err != nil {
				t.Fatalf("%s: %v", rec.RequestID, err)
			}
			if c.PickChanges {
				want++
			}
		}
		if len(got.changes) != want || got.decisions != len(list) || got.unfit != 0 {
			t.Errorf("%s by %d: %d of %d change, %d unfit; WhatIf says %d", knobs[at].key, steps, len(got.changes), got.decisions, got.unfit, want)
		}
		changes += want
	}
	if changes == 0 {
		t.Error("no weights changed any pick: this test sees nothing")
	}
}

// A decision under the cursor stays on its line while newer ones come in.
func TestFeedStays(t *testing.T) {
	var l feedList
	all := someRows(60)
	l.add(all[30:], false)
	l.choose("", nil)
	l.move(1)
	l.move(3)
	l.reveal(8)
	on, line := l.cursor, l.at()-l.top
	for i := 29; i >= 0; i-- {
		l.add(all[i:i+1], false)
		l.choose("", nil)
		l.reveal(8)
		if l.cursor != on || l.at()-l.top != line {
			t.Fatalf("after %d new ones line %d has it, it was on line %d", 30-i, l.at()-l.top, line)
		}
	}
	if l.top != 30 {
		t.Errorf("%d newer ones, want 30", l.top)
	}
	ended := all[30]
	ended.State, ended.TTFTSeconds = "done", new(1.5)
	l.add([]explain.Row{ended}, false)
	if len(l.rows) != 60 || *l.rows[30].TTFTSeconds != 1.5 {
		t.Error("a decision that ended did not take the place of what was known of it")
	}
	l.add(someRows(maxRows+200), true)
	if len(l.rows) != maxRows {
		t.Errorf("%d rows are kept", len(l.rows))
	}
}

// Columns sort as people count.
func TestNaturalOrder(t *testing.T) {
	names := []string{"pod-10", "pod-2", "a", "pod-2b", "pod-02", "", "pod-1000000000000000000000", "pod-999999999999999999999", "Pod-1"}
	slices.SortFunc(names, natural)
	want := []string{"", "Pod-1", "a", "pod-2", "pod-02", "pod-2b", "pod-10", "pod-999999999999999999999", "pod-1000000000000000000000"}
	if natural("pod-2", "pod-02") == natural("pod-02", "pod-2") && natural("pod-2", "pod-02") != 0 {
		t.Error("the order has no direction")
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// A picker that runs for ten seconds took its decisions in ten, not in sixty.
func TestRateOfAYoungPicker(t *testing.T) {
	s := fleet(2)
	s.Windows[1].Decisions = 300
	for uptime, want := range map[float64]float64{0: 5, .5: 300, 10: 30, 60: 5, 3600: 5} {
		s.Router.Uptime = uptime
		if got := decisionRate(s, 1); got == nil || *got != want {
			t.Errorf("after %v s: %v a second, want %v", uptime, got, want)
		}
	}
	if decisionRate(s, 9) != nil {
		t.Error("a window that is not there has a rate")
	}
}

// A command goes to another pool, of which the screen then begins anew.
func TestAnotherPool(t *testing.T) {
	m := still(120, 30, Look{}, hot())
	if m.command("pool code"); m.flash != "there are pools in a cluster alone: start with --pool" {
		t.Errorf("without a cluster: %q", m.flash)
	}
	var asked []string
	m.asks.other = func(namespace, pool string) (string, error) {
		asked = append(asked, namespace+"|"+pool)
		return "the picker of pool test/code", nil
	}
	for _, line := range []string{"pool code", "pool test/code", "ns test"} {
		m.Update(m.command(line)())
	}
	if want := []string{"|code", "test|code", "test|"}; !slices.Equal(asked, want) || m.flash != "the picker of pool test/code" {
		t.Errorf("asked %q, says %q", asked, m.flash)
	}
	m.receive(Update{Rows: someRows(5)})
	m.pods.filter = "pod"
	other := fleet(2)
	m.receive(Update{Anew: true, Snapshot: other, Rows: someRows(1)})
	if len(m.feed.rows) != 1 || m.pods.filter != "" || m.snap != other {
		t.Errorf("kept of the pool before: %d rows, filter %q", len(m.feed.rows), m.pods.filter)
	}
}
