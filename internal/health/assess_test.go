package health

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBands(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Signals)
		score  float64
		band   Band
		note   string
	}{
		{"all is well", func(*Signals) {}, 1, Healthy, ""},

		{"intermittent ECC errors", func(s *Signals) { s.SingleBit = Of(3) }, .9, Minor, "0.90: 3 corrected ECC errors"},
		{"heat", func(s *Signals) { s.Hottest = Of(84) }, .8, Minor, "0.80: 84 °C"},
		{"at the threshold of heat", func(s *Signals) { s.Hottest = Of(83) }, 1, Healthy, ""},
		{"heat and throttling", func(s *Signals) { s.Hottest, s.Throttle = Of(86), Of(1<<5) }, .7, Minor, "0.70: 86 °C, throttling"},
		{"throttling alone", func(s *Signals) { s.Throttle = Of(1 << 5) }, .9, Minor, "0.90: throttling"},
		{"memory", func(s *Signals) { s.Memory = Of(.985) }, .9, Minor, "0.90: 98.5 % of GPU memory in use"},
		{"memory is all but full", func(s *Signals) { s.Memory = Of(.996) }, .8, Minor, "0.80: 99.6 % of GPU memory in use"},
		{"cold cache", func(s *Signals) { s.Warm = No }, .9, Minor, "0.90: nothing cached"},
		{"one slow answer", func(s *Signals) { s.Probe = missed(1) }, .9, Minor, "0.90: timeout after 1s"},
		{"two slow answers", func(s *Signals) { s.Probe = missed(2) }, .7, Minor, "0.70: timeout after 1s, 2 times in a row"},
		{"an error of the application", func(s *Signals) { s.XID = Of(31) }, 1, Healthy, ""},

		{"many ECC errors", func(s *Signals) { s.SingleBit = Of(100) }, .6, Significant, "0.60: 100 corrected ECC errors"},
		{"an error of the driver", func(s *Signals) { s.XID = Of(94) }, .6, Significant, "0.60: XID 94"},
		{"great heat", func(s *Signals) { s.Hottest = Of(95) }, .6, Significant, "0.60: 95 °C"},
		{"slowed down by hardware", func(s *Signals) { s.Throttle = Of(1<<3 | 1<<5) }, .6, Significant, "0.60: slowed down by the hardware"},
		{"no token in time", func(s *Signals) { s.Generation = missed(1) }, .6, Significant, "0.60: 1-token probe: timeout after 1s"},
		{"many minor ones", func(s *Signals) {
			s.SingleBit, s.Hottest, s.Throttle, s.Memory = Of(1), Of(85), Of(1<<5), Of(.99)
		}, .5, Significant, "0.50: 85 °C, 1 corrected ECC errors, throttling, 99.0 % of GPU memory in use"},
		{"recovering", func(s *Signals) { s.Probe = recoveringFor(0) }, .3, Significant, "0.30: recovering from HTTP 503 on port 8000"},
		{"recovering, and hot", func(s *Signals) { s.Probe, s.Hottest = recoveringFor(4*time.Second), Of(85) }, .5, Significant, "0.50: recovering from HTTP 503 on port 8000"},
		{"everything that costs", func(s *Signals) {
			s.Probe, s.Generation, s.SingleBit, s.XID = missed(2), missed(2), Of(500), Of(63)
			s.Hottest, s.Throttle, s.Memory, s.Warm = Of(99), Of(0xff), Of(1), No
		}, .3, Significant, "0.30: 1-token probe: timeout after 1s, 2 times in a row, 500 corrected ECC errors, XID 63, 99 °C, and 4 more"},

		{"uncorrectable errors", func(s *Signals) { s.DoubleBit = Of(2) }, .2, Out, "0.20: 2 uncorrectable ECC errors"},
		{"a GPU that is gone", func(s *Signals) { s.XID, s.Hottest = Of(79), Of(85) }, .2, Out, "0.20: XID 79: GPU has fallen off the bus"},
		{"loading", func(s *Signals) { s.Model = No }, .1, Out, "0.10: lists no model that is asked for"},

		{"refused", func(s *Signals) { s.Probe = refused() }, 0, Failed, "0.00: connection refused on port 8000"},
		{"three failures", func(s *Signals) { s.Probe = missed(3) }, 0, Failed, "0.00: timeout after 1s, 3 times in a row"},
		{"no token three times", func(s *Signals) { s.Generation = missed(3) }, 0, Failed, "0.00: 1-token probe: timeout after 1s, 3 times in a row"},
		{"drained", func(s *Signals) { s.Drained = true }, 0, Failed, "0.00: drained by an operator"},
		{"drained, and hot", func(s *Signals) { s.Drained, s.Hottest = true, Of(95) }, 0, Failed, "0.00: drained by an operator"},

		{"by its own report", func(s *Signals) { s.Reported = Of(.65) }, .65, Significant, "0.65: as the pod itself reports"},
		{"its report is of the same heat", func(s *Signals) { s.Reported, s.Hottest = Of(.9), Of(85) }, .8, Minor, "0.80: 85 °C"},
		{"out by its own report", func(s *Signals) { s.Reported = Of(.29) }, .29, Out, "0.29: as the pod itself reports"},
		{"a report beyond its range", func(s *Signals) { s.Reported = Of(-3) }, 0, Failed, "0.00: as the pod itself reports"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := perfect()
			test.change(&s)
			got := Assess(&s)
			if got.Score != test.score || BandOf(got.Score) != test.band || got.Note() != test.note {
				t.Errorf("Assess = %v, %s, %q; want %v, %s, %q", got.Score, BandOf(got.Score), got.Note(), test.score, test.band, test.note)
			}
			if len(got.Unknown) != 0 {
				t.Errorf("unknown: %v, want nothing", got.Unknown)
			}
			if got.Score < 1 && len(got.Costs) == 0 {
				t.Error("nothing is said to cost the points")
			}
		})
	}
}

func TestMissingCostsNothing(t *testing.T) {
	got := Assess(&Signals{})
	if got.Score != 1 || got.Note() != "" {
		t.Errorf("of a pod of which nothing is known, Assess = %v, %q; want 1", got.Score, got.Note())
	}
	var all []Signal
	for s := Probe; s <= Report; s++ {
		all = append(all, s)
	}
	if !slices.Equal(got.Unknown, all) {
		t.Errorf("unknown: %v, want %v", got.Unknown, all)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		s := perfect()
		s.Hottest, s.Throttle, s.Reported = Of(v), Of(v), Of(v)
		got := Assess(&s)
		if got.Score != 1 || !slices.Equal(got.Unknown, []Signal{Temperature, Throttling, Report}) {
			t.Errorf("%v: Assess = %v, unknown %v; want 1, and the three unknown", v, got.Score, got.Unknown)
		}
	}
}

// What decides comes first, then the most expensive.
func TestCostsInOrder(t *testing.T) {
	s := perfect()
	s.Probe, s.DoubleBit, s.Hottest, s.Warm, s.Reported = missed(1), Of(1), Of(95), No, Of(.5)
	var order []Signal
	got := Assess(&s)
	for _, c := range got.Costs {
		order = append(order, c.Signal)
	}
	if want := []Signal{DoubleBit, Report, Temperature, Probe, Warmth}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	for _, c := range got.Costs {
		if c.Points <= 0 || c.Points > 1 || c.Text == "" {
			t.Errorf("cost %+v", c)
		}
	}
}

// The page for users names every signal.
func TestPageNamesEverySignal(t *testing.T) {
	page, err := os.ReadFile("../../docs/health.md")
	if err != nil {
		t.Fatal(err)
	}
	for s := range Signal(signals) {
		if !strings.Contains(string(page), "| `"+s.String()+"` |") {
			t.Errorf("docs/health.md has no row for %s", s)
		}
	}
}
