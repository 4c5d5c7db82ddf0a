package main

import (
	"strings"
	"testing"
)

func run3(values ...float64) []pair {
	var out []pair
	for i := 0; i+1 < len(values); i += 2 {
		make1 := func(v float64) *result {
			r := &result{Picker: &usage{CPUMsPerRequest: new(v)}, Client: &usage{}}
			r.HeaderReply.P50 = v
			return r
		}
		out = append(out, pair{make1(values[i]), make1(values[i+1])})
	}
	return out
}

func TestVerdicts(t *testing.T) {
	slow := run3(2, 1, 30, 10, 2.5, 1) // ratios 2, 3, 2.5: the machine was slow in the second pair
	for _, tc := range []struct {
		name            string
		check           check
		pairs           []pair
		relation, state string
	}{
		{"a ratio within", check{"p50", p50Of, timesNoop, 2.6, ""}, slow, "2.5×", "ok"},
		{"a ratio beyond", check{"p50", p50Of, timesNoop, 2.4, ""}, slow, "2.5×", "OVER"},
		{"ours alone", check{"p50", p50Of, alone, 2, ""}, slow, "–", "OVER"},
		{"a difference", check{"p50", p50Of, beyondNoop, 0, ""}, slow, "+1.5", "shown"},
		{"faster than nothing", check{"p50", p50Of, beyondNoop, 0, ""}, run3(1, 2), "-1", "shown"},
		{"not known", check{"allocs", allocsOf, alone, 5, ""}, slow, "–", "missing"},
		{"a no-op of zero", check{"cpu", cpuOf, timesNoop, 5, ""}, run3(1, 0), "–", "missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &comparison{}
			c.add(&row{name: "work", checks: []check{tc.check}}, tc.pairs)
			cells := c.figures[0].cells()
			if cells[4] != tc.relation || cells[7] != tc.state {
				t.Errorf("cells %q, want %s and %s", cells, tc.relation, tc.state)
			}
			failed := tc.state == "OVER" || tc.state == "missing"
			if err := c.failure(1); (err != nil) != failed {
				t.Errorf("failure: %v with verdict %s", err, tc.state)
			}
			if err := c.failure(10); (err != nil) != (tc.state == "missing") {
				t.Errorf("failure over ten times the limit: %v with verdict %s", err, tc.state)
			}
		})
	}
}

func TestHeldBodies(t *testing.T) {
	const mb = 1 << 20
	h := &held{
		HeldBytes: 300 * mb, Refused: 7, First: `status 429 {"error":{}}`,
		Before:  &usage{HeapBytes: new(10.0 * mb), RSSBytes: new(int64(20 * mb))},
		Holding: &usage{HeapBytes: new(410.0 * mb), RSSBytes: new(int64(520 * mb))},
	}
	c := &comparison{}
	c.hold("many", h)
	if text := c.text(); !strings.Contains(text, "OVER") || !strings.Contains(text, "400") || !strings.Contains(text, "(status 429)") {
		t.Errorf("text:\n%s", text)
	}
	if err := c.failure(1); err == nil || strings.Count(err.Error(), "\n") != 0 {
		t.Errorf("failure: %v, want the held bytes alone", err)
	}
}

func TestEveryRowHasItsPromise(t *testing.T) {
	for _, r := range rows() {
		seen := map[string]bool{}
		promised := false
		for _, c := range r.checks {
			key := c.figure + string(rune('0'+c.by))
			if seen[key] {
				t.Errorf("%s: %s stands twice", r.name, c.figure)
			}
			seen[key] = true
			promised = promised || c.most > 0
		}
		if !promised {
			t.Errorf("%s: no limit", r.name)
		}
		if _, err := parsingMs(workload{r.work.model, r.work.bytes, 1}); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
}
