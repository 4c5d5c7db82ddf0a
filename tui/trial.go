package tui

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// knob is a weight, or the limit of the queues, that can be tried at another value.
type knob struct {
	key      string // of the configuration
	now, try float64
	whole    bool // a number of requests, no share of 1
	free     bool // the weights of that picker need no sum
}

// knobsOf are the weights in force. Without one of the built-in ones they are another
// picker's, which need no sum; without any they are not known.
func knobsOf(w *explain.Weights) []knob {
	var knobs []knob
	foreign := w.Cache+w.Load+w.Queue+w.Health+w.Adapter == 0
	if !foreign {
		for i, v := range []float64{w.Cache, w.Load, w.Queue, w.Health, w.Adapter} {
			knobs = append(knobs, knob{key: score.WeightKeys()[i], now: v, try: v})
		}
	}
	for _, c := range w.Custom {
		knobs = append(knobs, knob{key: c.Name, now: c.Weight, try: c.Weight, free: foreign})
	}
	if !foreign {
		knobs = append(knobs, knob{key: "maxQueue", now: float64(w.MaxQueue), try: float64(w.MaxQueue), whole: true})
	}
	return knobs
}

// Steps of the keys.
const (
	weightStep = 0.05
	freeStep   = 0.5
)

// turn changes a knob by a number of steps. Weights that have to sum to 1 take it
// from the others, in proportion.
func turn(knobs []knob, at, steps int) {
	k := &knobs[at]
	switch {
	case k.whole:
		k.try = max(k.try+float64(steps), 1)
		return
	case k.free:
		k.try = max(k.try+freeStep*float64(steps), 0)
		return
	}
	v := round(min(max(k.try+weightStep*float64(steps), 0), 1), 2)
	rest, others := 1-k.try, []int{}
	for i := range knobs {
		if i != at && !knobs[i].whole {
			others = append(others, i)
		}
	}
	if len(others) == 0 {
		return
	}
	k.try = v
	largest, sum := others[0], v
	for _, i := range others {
		part := 1 / float64(len(others))
		if rest > score.SumTolerance {
			part = knobs[i].try / rest
		}
		knobs[i].try = round((1-v)*part, 4)
		sum += knobs[i].try
		if knobs[i].try > knobs[largest].try {
			largest = i
		}
	}
	knobs[largest].try = round(knobs[largest].try+1-sum, 6)
}

func round(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(v*scale) / scale
}

// changed reports whether anything is tried.
func changed(knobs []knob) bool {
	return slices.ContainsFunc(knobs, func(k knob) bool { return k.try != k.now })
}

// configLine is the tried weights as the configuration has them.
func configLine(knobs []knob) string {
	var weights []string
	limit := ""
	for _, k := range knobs {
		v := strconv.FormatFloat(k.try, 'f', -1, 64)
		switch {
		case !k.whole:
			weights = append(weights, k.key+": "+v)
		case k.try != k.now:
			limit = "maxQueue: " + v + "\n"
		}
	}
	return "weights: {" + strings.Join(weights, ", ") + "}\n" + limit
}

// trialResult is what came of trying weights on recorded decisions: for each pick
// taken alone, exactly what it would have been.
type trialResult struct {
	decisions  int
	unfit      int // that do not replay, or were not taken by scores
	from, till time.Time
	changes    []trialChange // the newest first
	pods       []trialPod    // by how much they gain or lose
}

type trialChange struct {
	at       time.Time
	id       string // of the request
	now, try string // pods; "" when refused
	margin   *float64
}

type trialPod struct {
	pod      string
	now, try int
}

// try takes recorded decisions again with other weights.
func try(records []*explain.Record, knobs []knob) *trialResult {
	out := &trialResult{}
	pods := map[string]*trialPod{}
	at := func(name string) *trialPod {
		if pods[name] == nil {
			pods[name] = &trialPod{pod: name}
		}
		return pods[name]
	}
	var d score.Decision
	for _, rec := range records {
		check, in, was := explain.Replay(rec)
		if !check.Identical || rec.Policy != explain.PolicyScores && rec.Policy != "" {
			out.unfit++
			continue
		}
		if out.decisions++; out.decisions == 1 {
			out.till = rec.Time
		}
		out.from = rec.Time
		set(in.Weights, knobs)
		in.Decide(&d)
		now, would := podAt(rec, was.Winner), podAt(rec, d.Winner)
		at(now).now++
		at(would).try++
		if d.Winner != was.Winner {
			c := trialChange{at: rec.Time, id: rec.RequestID, now: now, try: would}
			if d.Winner >= 0 && !math.IsNaN(d.Margin) && !math.IsInf(d.Margin, 0) {
				c.margin = new(d.Margin)
			}
			out.changes = append(out.changes, c)
		}
	}
	for _, p := range pods {
		out.pods = append(out.pods, *p)
	}
	slices.SortFunc(out.pods, func(a, b trialPod) int {
		return cmp.Or(-cmp.Compare(abs(a.try-a.now), abs(b.try-b.now)), cmp.Compare(a.pod, b.pod))
	})
	return out
}

// podAt is the name of a candidate; "" when the request was refused.
func podAt(rec *explain.Record, i int) string {
	if i < 0 {
		return ""
	}
	return rec.Candidates[i].Pod
}

func abs(n int) int { return max(n, -n) }

// set puts the tried values into weights. Keys that those weights do not have are
// passed over: other ones were in force then.
func set(w *score.Weights, knobs []knob) {
	for _, k := range knobs {
		if k.whole {
			w.MaxQueue = int(k.try)
			continue
		}
		_ = w.Set(k.key, k.try)
	}
}
