package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// By how much a figure has to change to have moved.
const (
	matchDrop    = 0.10  // mean cache match ratio
	queueFull    = 0.5   // of maxQueue, at the ninth decile
	queueGrowth  = 3.0   // requests, at the ninth decile
	slowScoring  = 0.005 // seconds, at p99: the seed's red flag
	someScoring  = 0.001 // seconds, below which twice as much is nothing
	manyStale    = 0.05  // of decisions
	someStale    = 0.02
	ttftGrowth   = 1.5 // times, at p99
	twice        = 2.0
	fewDecisions = 20 // below which nothing is said to have moved
)

// checks are the five questions, in the order in which to ask them.
func checks(now, before []sample) []Check {
	enough := len(now) >= fewDecisions && len(before) >= fewDecisions
	full := 0.0
	for i := range now {
		full = max(full, float64(now[i].maxQueue))
	}
	out := []Check{
		{
			Name: "cacheMatch", Question: "has less of the prompts been cached?", Unit: "ratio",
			Measured: measure(now, before, func(s *sample) float64 { return s.match }),
		}, {
			Name: "queueDepth", Question: "are queues deep?", Unit: "requests in the deepest queue",
			Measured: measure(now, before, func(s *sample) float64 { return s.depth }),
		}, {
			Name: "candidates", Question: "has the pool shrunk?", Unit: "pods that could win",
			Measured: measure(now, before, func(s *sample) float64 { return s.candidates }),
		}, {
			Name: "scoring", Question: "is the picker itself slow?", Unit: "seconds",
			Measured: measure(now, before, func(s *sample) float64 { return s.scoring }),
		}, {
			Name: "stale", Question: "were picks made on caches that were gone?", Unit: "share of decisions",
			Measured: measure(now, before, func(s *sample) float64 { return s.stale }),
		},
	}
	for i := range out {
		c := &out[i]
		c.Moved = enough && c.Measured.Now.Count > 0 && c.Measured.Before.Count > 0 && c.moved(full)
		c.Text = c.text()
	}
	return out
}

func (c *Check) moved(maxQueue float64) bool {
	now, before := &c.Measured.Now, &c.Measured.Before
	switch c.Name {
	case "cacheMatch":
		return *now.Mean <= *before.Mean-matchDrop
	case "queueDepth":
		deep := queueFull * maxQueue
		if maxQueue == 0 { // no limit is known
			deep = twice * *before.P90
		}
		return *now.P90 >= deep && *now.P90 >= *before.P90+queueGrowth
	case "candidates":
		return *now.P50 < *before.P50 || *now.P10 < *before.P10
	case "scoring":
		return *now.P99 > *before.P99 && (*now.P99 >= slowScoring || *now.P99 >= someScoring && *now.P99 >= twice**before.P99)
	}
	return *now.Mean > *before.Mean && (*now.Mean >= manyStale || *now.Mean >= someStale && *now.Mean >= twice**before.Mean)
}

func (c *Check) text() string {
	m := &c.Measured
	switch c.Name {
	case "cacheMatch":
		return "mean " + change(m, mean, percent) + "; p10 " + change(m, p10, percent) + ", p50 " + change(m, p50, percent) + ", p90 " + change(m, p90, percent)
	case "queueDepth":
		return "deepest queue p50 " + change(m, p50, number) + ", p90 " + change(m, p90, number)
	case "candidates":
		return "pods p10 " + change(m, p10, number) + ", p50 " + change(m, p50, number)
	case "scoring":
		return "p50 " + change(m, p50, inMillis) + ", p99 " + change(m, p99, inMillis)
	}
	return "share " + change(m, mean, percent)
}

func mean(q *Quantiles) *float64 { return q.Mean }
func p10(q *Quantiles) *float64  { return q.P10 }
func p50(q *Quantiles) *float64  { return q.P50 }
func p90(q *Quantiles) *float64  { return q.P90 }
func p99(q *Quantiles) *float64  { return q.P99 }

func percent(v float64) string  { return fmt.Sprintf("%.1f%%", 100*v) }
func inMillis(v float64) string { return fmt.Sprintf("%.3g ms", 1000*v) }

// change is a figure now, and before where that is known.
func change(m *Measured, of func(*Quantiles) *float64, show func(float64) string) string {
	now, before := of(&m.Now), of(&m.Before)
	switch {
	case now == nil && before == nil:
		return "unknown"
	case now == nil:
		return "unknown (was " + show(*before) + ")"
	case before == nil:
		return show(*now)
	}
	return show(*now) + " (was " + show(*before) + ")"
}

func (w *Window) verdict() string {
	switch {
	case w.Decisions == 0:
		return "no decision in this time"
	case w.DecisionsBefore < fewDecisions || w.Decisions < fewDecisions:
		return fmt.Sprintf("%s in this time and %d before: too few to say what moved",
			count(w.Decisions, "decision"), w.DecisionsBefore)
	}
	var moved []string
	for i := range w.Checks {
		if w.Checks[i].Moved {
			moved = append(moved, movedTexts[w.Checks[i].Name])
		}
	}
	ttft := "the time to first token is not known"
	if now, before := w.TTFT.Now.P99, w.TTFT.Before.P99; now != nil && before != nil {
		ttft = "time to first token at p99 is " + change(&w.TTFT, p99, seconds3)
		if *now < ttftGrowth**before {
			ttft += ", no spike"
		}
	}
	if len(moved) == 0 {
		return ttft + "; none of the five checks moved"
	}
	return ttft + "; " + strings.Join(moved, ", ")
}

func seconds3(v float64) string { return fmt.Sprintf("%.3gs", v) }

var movedTexts = map[string]string{
	"cacheMatch": "less of the prompts is cached",
	"queueDepth": "queues are deep",
	"candidates": "the pool has shrunk",
	"scoring":    "the picker itself is slow",
	"stale":      "more picks were made on caches that were gone",
}

// AdapterUse says how often picks made an engine load a LoRA adapter.
type AdapterUse struct {
	Requests int `json:"requests"` // that needed an adapter
	Loads    int `json:"loads"`    // of these, to a pod that did not have it
	Pods     int `json:"pods"`     // that these requests went to
	Adapters int `json:"adapters"`
	// LoadsPerMinute is of the whole fleet.
	LoadsPerMinute float64 `json:"loadsPerMinute"`
	// Pattern is none, concentrated (most loads are of one adapter) or spread.
	Pattern string        `json:"pattern"`
	Text    string        `json:"text"`
	Top     []AdapterLoad `json:"top"` // the most loads first, at most 10
}

// AdapterLoad is one adapter's part.
type AdapterLoad struct {
	Adapter  string `json:"adapter"`
	Requests int    `json:"requests"`
	Loads    int    `json:"loads"`
	Pods     int    `json:"pods"` // that its requests went to
}

const (
	topAdapters  = 10
	thrash       = 2.0 // loads a pod and minute
	concentrated = 0.5 // share of one adapter
	// perPod is how many adapters a pod serves without thrashing, at most.
	perPod = 5
)

// adapterUse counts loads by adapter; nil when no request needed one.
func adapterUse(now []sample, length time.Duration) *AdapterUse {
	out := &AdapterUse{Pattern: "none", Top: []AdapterLoad{}}
	loads, pods := map[string]*AdapterLoad{}, map[[2]string]bool{}
	for i := range now {
		s := &now[i]
		if s.adapter == "" || s.pod == "" {
			continue
		}
		u := loads[s.adapter]
		if u == nil {
			u = &AdapterLoad{Adapter: s.adapter}
			loads[s.adapter] = u
		}
		u.Requests++
		out.Requests++
		if s.adapterLoads {
			u.Loads++
			out.Loads++
		}
		pods[[2]string{"", s.pod}], pods[[2]string{s.adapter, s.pod}] = true, true
	}
	if out.Requests == 0 {
		return nil
	}
	for pair := range pods {
		if u := loads[pair[0]]; u != nil {
			u.Pods++
		} else {
			out.Pods++
		}
	}
	out.rank(loads)
	out.LoadsPerMinute = float64(out.Loads) / max(length.Minutes(), 1.0/60)
	out.judge()
	out.Top = out.Top[:min(len(out.Top), topAdapters)]
	return out
}

// rank lists the adapters, the most loads first.
func (a *AdapterUse) rank(loads map[string]*AdapterLoad) {
	for _, u := range loads {
		a.Top = append(a.Top, *u)
	}
	slices.SortFunc(a.Top, func(x, y AdapterLoad) int {
		return cmp.Or(cmp.Compare(y.Loads, x.Loads), cmp.Compare(x.Adapter, y.Adapter))
	})
	a.Adapters = len(loads)
}

// judge names the pattern, and what may be done.
func (a *AdapterUse) judge() {
	rate := fmt.Sprintf("%s by picks (%.1f a minute on %s)", count(a.Loads, "adapter load"), a.LoadsPerMinute, count(a.Pods, "pod"))
	switch top := &a.Top[0]; {
	case a.LoadsPerMinute < thrash*float64(a.Pods):
		a.Text = rate + ": no thrashing"
	case float64(top.Loads) >= concentrated*float64(a.Loads) && a.Adapters > 1 || a.Adapters == 1:
		a.Pattern = "concentrated"
		a.Text = fmt.Sprintf("%s, %d of them of %s, whose requests went to %s: a higher weight of adapter keeps them on fewer pods",
			rate, top.Loads, top.Adapter, count(top.Pods, "pod"))
	case a.Adapters > perPod*a.Pods:
		a.Pattern = "spread"
		a.Text = fmt.Sprintf("%s, spread over %d adapters: too many for these pods, of which each serves %d at most without thrashing",
			rate, a.Adapters, perPod)
	default:
		a.Pattern = "spread"
		a.Text = fmt.Sprintf("%s, spread over %d adapters: the cache fights with the adapters; a weight of adapter of 0.15 to 0.20, taken from cache, keeps each where it is loaded",
			rate, a.Adapters)
	}
}
