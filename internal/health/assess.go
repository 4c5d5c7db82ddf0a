package health

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/score"
)

// Scores are computed in hundredths, so that the bands are met exactly.
const (
	full  = 100
	point = 10 // the step of the table
	// least is what costs leave: the least with which a pod takes part.
	least = 30
)

// Band is one of the ranges that a score can be in.
type Band uint8

// The bands.
const (
	Failed      Band = iota // 0: drained or failed
	Out                     // below 0.3: gets no new requests
	Significant             // from 0.3: only when others are no better
	Minor                   // from 0.7
	Healthy                 // 1
)

var bandNames = [...]string{"failed", "out", "significant", "minor", "healthy"}

// String is the band's spelling in JSON and on screens.
func (b Band) String() string {
	if int(b) < len(bandNames) {
		return bandNames[b]
	}
	return "invalid"
}

// BandOf is the band of a score.
func BandOf(s float64) Band {
	switch {
	case s >= 1:
		return Healthy
	case s >= .7:
		return Minor
	case s >= score.HealthCutoff:
		return Significant
	case s > 0:
		return Out
	}
	return Failed
}

// Cost is what one signal takes from a pod.
type Cost struct {
	Signal Signal
	// Points are what it would take by itself, 0..1.
	Points float64
	Text   string // for a person: "86 °C"

	limit bool // it is the most that the pod can have, rather than something off
}

// Assessment is a pod's health at one moment.
type Assessment struct {
	Score float64
	// Costs are what keeps it from being 1: first what decides, then the most
	// expensive.
	Costs []Cost
	// Unknown are the signals of which nothing is known.
	Unknown []Signal

	decided bool // by limits
}

// Assess judges a pod.
func Assess(s *Signals) Assessment {
	j := judgement{limit: full}
	if s.Drained {
		j.limits(Operator, 0, "drained by an operator")
	}
	j.check(Probe, &s.Probe)
	if s.Model == No {
		j.limits(Models, 10, "lists no model that is asked for")
	}
	j.check(Generation, &s.Generation)
	j.gpu(s)
	if s.Warm == No {
		j.costs(Warmth, 10, "nothing cached")
	}
	return j.assessment(s)
}

// judgement adds up hundredths.
type judgement struct {
	found []Cost
	sum   int
	limit int
}

func (j *judgement) costs(of Signal, points int, text string) {
	j.sum += points
	j.found = append(j.found, Cost{Signal: of, Points: hundredths(points), Text: text})
}

func (j *judgement) limits(of Signal, most int, text string) {
	j.limit = min(j.limit, most)
	j.found = append(j.found, Cost{Signal: of, Points: hundredths(full - most), Text: text, limit: true})
}

func hundredths(n int) float64 { return float64(n) / full }

// missCosts are those of failures in a row that are not three.
var missCosts = [signals][missesToFail]int{Probe: {0, 10, 30}, Generation: {0, 40, 40}}

func (j *judgement) check(of Signal, s *Standing) {
	if !s.Known {
		return
	}
	reason := s.Reason
	if of == Generation {
		reason = "1-token probe: " + reason
	}
	if s.Recovered > 0 {
		j.limits(of, s.Recovered, "recovering from "+reason)
	}
	if s.Misses > 1 {
		reason += fmt.Sprintf(", %d times in a row", s.Misses)
	}
	switch {
	case s.Failed:
		j.limits(of, 0, reason)
	case s.Misses > 0:
		j.costs(of, missCosts[of][min(s.Misses, missesToFail-1)], reason)
	}
}

func (j *judgement) gpu(s *Signals) {
	if s.DoubleBit.above(0) {
		j.limits(DoubleBit, 20, fmt.Sprintf("%.0f uncorrectable ECC errors", s.DoubleBit.V))
	}
	switch {
	case s.SingleBit.atLeast(100):
		j.costs(SingleBit, 40, fmt.Sprintf("%.0f corrected ECC errors", s.SingleBit.V))
	case s.SingleBit.above(0):
		j.costs(SingleBit, 10, fmt.Sprintf("%.0f corrected ECC errors", s.SingleBit.V))
	}
	j.xid(s.XID)
	switch {
	case s.Hottest.above(90):
		j.costs(Temperature, 40, fmt.Sprintf("%.0f °C", s.Hottest.V))
	case s.Hottest.above(83):
		j.costs(Temperature, 20, fmt.Sprintf("%.0f °C", s.Hottest.V))
	}
	j.throttling(s.Throttle)
	switch {
	case s.Memory.atLeast(.995):
		j.costs(Memory, 20, fmt.Sprintf("%.1f %% of GPU memory in use", 100*s.Memory.V))
	case s.Memory.atLeast(.98):
		j.costs(Memory, 10, fmt.Sprintf("%.1f %% of GPU memory in use", 100*s.Memory.V))
	}
}

// Why clocks are lowered, as NVML has the bits. Others, such as an idle GPU or the
// cap on its power, are no sign of a fault.
const (
	hardwareSlowdown   = 1 << 3
	softwareThermal    = 1 << 5
	hardwareThermal    = 1 << 6
	hardwarePowerBrake = 1 << 7
)

func (j *judgement) throttling(bits Number) {
	if !bits.Known || bits.V < 0 || bits.V > 1<<53 {
		return
	}
	switch b := uint64(bits.V); {
	case b&(hardwareSlowdown|hardwareThermal|hardwarePowerBrake) != 0:
		j.costs(Throttling, 40, "slowed down by the hardware")
	case b&softwareThermal != 0:
		j.costs(Throttling, 10, "throttling")
	}
}

// assessment closes the judgement. What a pod reports is no multiple of 0.1, so that
// it comes last.
func (j *judgement) assessment(s *Signals) Assessment {
	a := Assessment{Score: hundredths(min(max(full-j.sum, least), j.limit)), decided: j.limit < max(full-j.sum, least)}
	if r := s.Reported; r.Known && r.V < 1 {
		v := max(0, r.V)
		j.found = append(j.found, Cost{Signal: Report, Points: math.Round((1-v)*1e9) / 1e9, Text: "as the pod itself reports", limit: true})
		if v < a.Score {
			a.Score, a.decided = v, true
		}
	}
	for of := range Signal(signals) {
		if !s.known(of) {
			a.Unknown = append(a.Unknown, of)
		}
	}
	slices.SortStableFunc(j.found, func(x, y Cost) int {
		return cmp.Or(cmp.Compare(a.rank(&x), a.rank(&y)), cmp.Compare(y.Points, x.Points))
	})
	a.Costs = j.found
	return a
}

// rank is 0 for what decides.
func (a *Assessment) rank(c *Cost) int {
	if a.decides(c) {
		return 0
	}
	return 1
}

// decides reports whether the score is what it is because of c: a limit that is
// met, or without one any cost.
func (a *Assessment) decides(c *Cost) bool {
	const rounding = 1e-9
	if a.decided {
		return c.limit && math.Abs(1-c.Points-a.Score) < rounding
	}
	return !c.limit
}

// mostTexts bounds what a note names.
const mostTexts = 4

// Note says what the points were lost for: "0.70: 86 °C, throttling"; nothing when
// none were.
func (a *Assessment) Note() string {
	var texts []string
	for i := range a.Costs {
		if a.decides(&a.Costs[i]) {
			texts = append(texts, a.Costs[i].Text)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	if more := len(texts) - mostTexts; more > 0 {
		texts = append(texts[:mostTexts], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%.2f: %s", a.Score, strings.Join(texts, ", "))
}
