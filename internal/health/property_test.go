package health

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/score"
)

func number(worst float64) *rapid.Generator[Number] {
	return rapid.Custom(func(t *rapid.T) Number {
		if rapid.IntRange(0, 3).Draw(t, "unknown") == 0 {
			return Number{}
		}
		return Of(rapid.Float64Range(0, worst).Draw(t, "value"))
	})
}

// standings of a check after any history, and a moment later.
func standing() *rapid.Generator[Standing] {
	return rapid.Custom(func(t *rapid.T) Standing {
		var c Check
		now := time.Duration(0)
		for _, step := range rapid.SliceOfN(rapid.SampledFrom([]byte("ssssfffrh.")), 0, 30).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond
			play(&c, step, now)
		}
		return c.Standing(now + time.Duration(rapid.IntRange(0, 20_000).Draw(t, "later"))*time.Millisecond)
	})
}

func anySignals() *rapid.Generator[Signals] {
	answer := rapid.SampledFrom([]Answer{Unknown, Yes, No})
	return rapid.Custom(func(t *rapid.T) Signals {
		return Signals{
			Drained: rapid.IntRange(0, 9).Draw(t, "drained") == 0, Probe: standing().Draw(t, "probe"),
			Generation: standing().Draw(t, "generation"), Model: answer.Draw(t, "model"),
			DoubleBit: number(3).Draw(t, "double"), SingleBit: number(300).Draw(t, "single"),
			XID: number(160).Draw(t, "xid"), Hottest: number(110).Draw(t, "hottest"),
			Throttle: number(512).Draw(t, "throttle"), Memory: number(1).Draw(t, "memory"),
			Warm: answer.Draw(t, "warm"), Reported: number(1.2).Draw(t, "reported"),
		}
	})
}

func TestScoreIsBoundedAndExplained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySignals().Draw(t, "signals")
		a := Assess(&s)
		if math.IsNaN(a.Score) || a.Score < 0 || a.Score > 1 {
			t.Fatalf("score %v", a.Score)
		}
		if (a.Score < 1) != (a.Note() != "") || (a.Score < 1) != (len(a.Costs) > 0) {
			t.Fatalf("score %v, note %q, costs %v", a.Score, a.Note(), a.Costs)
		}
		out, taken := false, 0.0
		for _, c := range a.Costs {
			out = out || c.limit && 1-c.Points < score.HealthCutoff
			taken += c.Points
			if !s.known(c.Signal) {
				t.Fatalf("%s costs %v and is not known", c.Signal, c.Points)
			}
		}
		if (a.Score < score.HealthCutoff) != out {
			t.Fatalf("score %v with %+v: only a limit puts a pod out", a.Score, a.Costs)
		}
		if 1-a.Score > taken+1e-9 {
			t.Fatalf("score %v, and the costs are %v together", a.Score, taken)
		}
		if got := BandOf(a.Score) == Out || BandOf(a.Score) == Failed; got != out {
			t.Fatalf("band %s with score %v", BandOf(a.Score), a.Score)
		}
	})
}

// Each signal by itself: worse, or known in place of unknown, never gives more.
func TestScoreIsMonotone(t *testing.T) {
	worse := map[Signal]func(t *rapid.T, s *Signals){
		Operator:    func(_ *rapid.T, s *Signals) { s.Drained = true },
		Models:      func(_ *rapid.T, s *Signals) { s.Model = No },
		Warmth:      func(_ *rapid.T, s *Signals) { s.Warm = No },
		Probe:       func(t *rapid.T, s *Signals) { s.Probe = worseStanding(t, s.Probe) },
		Generation:  func(t *rapid.T, s *Signals) { s.Generation = worseStanding(t, s.Generation) },
		DoubleBit:   func(t *rapid.T, s *Signals) { s.DoubleBit = more(t, s.DoubleBit, 5) },
		SingleBit:   func(t *rapid.T, s *Signals) { s.SingleBit = more(t, s.SingleBit, 500) },
		Temperature: func(t *rapid.T, s *Signals) { s.Hottest = more(t, s.Hottest, 120) },
		Memory:      func(t *rapid.T, s *Signals) { s.Memory = more(t, s.Memory, 1) },
		// Codes have no order: any is worse than none, and bits are worse with others.
		XID: func(t *rapid.T, s *Signals) {
			if !s.XID.above(0) {
				s.XID = Of(float64(rapid.IntRange(1, 200).Draw(t, "code")))
			}
		},
		Throttling: func(t *rapid.T, s *Signals) {
			s.Throttle = Of(float64(uint64(s.Throttle.V) | rapid.Uint64Range(0, 511).Draw(t, "bits")))
		},
		Report: func(t *rapid.T, s *Signals) {
			from := 1.0
			if s.Reported.Known {
				from = s.Reported.V
			}
			s.Reported = Of(rapid.Float64Range(-1, from).Draw(t, "less"))
		},
	}
	for of := range Signal(signals) {
		t.Run(of.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := anySignals().Draw(t, "signals")
				before := Assess(&s).Score
				was := s
				worse[of](t, &s)
				if after := Assess(&s).Score; after > before {
					t.Fatalf("score %v for %+v, and %v for the worse %+v", before, was, after, s)
				}
			})
		})
	}
}

func more(t *rapid.T, n Number, most float64) Number {
	return Of(rapid.Float64Range(n.V, max(n.V, most)).Draw(t, "more"))
}

// worseStanding is that after one more failure of any sort.
func worseStanding(t *rapid.T, s Standing) Standing {
	if s.Failed {
		return s
	}
	next := Standing{Known: true, Reason: "worse"}
	next.Misses = s.Misses + 1
	next.Failed = next.Misses >= missesToFail || rapid.Bool().Draw(t, "no doubt")
	if s.Recovered > 0 && !next.Failed {
		next.Recovered = recoveryStart
	}
	return next
}
