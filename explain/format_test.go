package explain

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/score"
)

func TestDominanceText(t *testing.T) {
	for want, w := range map[string]score.Weights{
		"cache never dominates: it has no weight":                                              {Load: 1, MaxQueue: 20, MaxUtilization: 1},
		"cache never dominates: its lead would have to be above 1.3875, and 1 is all there is": {Cache: .4, Load: .2, Queue: .3, Health: .05, Adapter: .05, MaxQueue: 10, MaxUtilization: 1},
		"a lead of more than 63.4 points in cache match always wins between eligible pods":     score.Default(),
		"a lead of more than 0.0 points in cache match always wins between eligible pods":      {Cache: 1, MaxQueue: 20, MaxUtilization: 1},
	} {
		if got := Analyse(&w).Dominance.Text(); got != want {
			t.Errorf("dominance = %q, want %q", got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{points(.3), "0.30"},
		{points(.0042), "0.004"},
		{points(2e-9), "2e-09"},
		{points(0), "0"},
		{number(12), "12"},
		{number(.5), "0.5"},
		{number(33.33333), "33.333"},
		{number(1e300), "1e+300"},
		{weightText(.6), "0.60"},
		{weightText(.05), "0.05"},
		{weightText(.4005), "0.4005"},
		{weightText(1), "1.00"},
		{secondsText(.0412), "41.2 ms"},
		{secondsText(1.904), "1.90 s"},
		{secondsText(75.5), "1m15s"},
		{ageText(.4), "0.4s"},
		{ageText(75), "1m15s"},
		{ageText(1e300), "277777h46m40s"},
		{shortID("91c2f0a7-3a4e-4f2b-9f67-0c2a51c0ee01"), "91c2f0a7…"},
		{shortID("turn-5"), "turn-5"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}

// Rounding goes towards flipping, by less than one unit of the last decimal.
func TestRoundTowards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, best := rapid.Float64Range(0, 1e6).Draw(t, "value"), rapid.Float64Range(0, 1e6).Draw(t, "best")
		decimals := rapid.IntRange(0, 9).Draw(t, "decimals")
		got := roundTowards(v, best, decimals)
		if (best >= v) != (got >= v) && got != v {
			t.Fatalf("roundTowards(%v, %v, %d) = %v is away from the best", v, best, decimals, got)
		}
		if unit := math.Pow10(-decimals); math.Abs(got-v) > unit*(1+1e-9) {
			t.Fatalf("roundTowards(%v, %v, %d) = %v is more than %v away", v, best, decimals, got, unit)
		}
		if (best >= v && got > best) || (best < v && got < best) {
			t.Fatalf("roundTowards(%v, %v, %d) = %v is beyond the best", v, best, decimals, got)
		}
	})
}

func TestFold(t *testing.T) {
	for _, tc := range []struct {
		text  string
		limit int
		want  []string
	}{
		{"", 5, []string{""}},
		{"a b", 0, []string{"a b"}},
		{"aaa bbb ccc", 7, []string{"aaa bbb", "ccc"}},
		{"aaaaaaaaaa b", 4, []string{"aaaa", "aaaa", "aa b"}},
		{"日本語 b", 4, []string{"日本", "語 b"}},
	} {
		got := fold(tc.text, tc.limit)
		if len(got) != len(tc.want) {
			t.Errorf("fold(%q, %d) = %q, want %q", tc.text, tc.limit, got, tc.want)
			continue
		}
		for i := range got {
			if got[i] != tc.want[i] {
				t.Errorf("fold(%q, %d) = %q, want %q", tc.text, tc.limit, got, tc.want)
			}
		}
	}
}
