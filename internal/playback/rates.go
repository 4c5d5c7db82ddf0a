package playback

import (
	"slices"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// The place of the window that pods are counted in.
const midWindow = 1

// tally counts one window.
type tally struct {
	explain.WindowRates
	match, took, ttft []float64
}

// podTally counts one pod in the middle window.
type podTally struct {
	prompt, cached int // tokens of requests of which both are known …
	told           int // … and how many these are
	ttft           []float64
}

// count adds to a snapshot what the decisions up to t tell of its windows.
func count(s *explain.Snapshot, span []*explain.Record, t time.Time) {
	windows := make([]tally, len(explain.WindowSeconds))
	pods := map[[2]string]*explain.PodSnapshot{}
	for i := range s.Pods {
		pods[[2]string{s.Pods[i].Pod, s.Pods[i].Endpoint}] = &s.Pods[i]
	}
	byPod := map[*explain.PodSnapshot]*podTally{}
	for k, seconds := range explain.WindowSeconds {
		windows[k].Seconds = seconds
		since := t.Add(-time.Duration(seconds) * time.Second)
		for _, rec := range span {
			p := pods[[2]string{rec.Result.Pod, rec.Result.Endpoint}]
			if rec.Time.After(since) {
				windows[k].decided(rec, p, k)
			}
			end, known := ended(rec)
			if !known || !end.After(since) || end.After(t) {
				continue
			}
			windows[k].ended(rec)
			if k == midWindow && p != nil {
				if byPod[p] == nil {
					byPod[p] = &podTally{}
				}
				byPod[p].ended(rec, p)
			}
		}
		s.Windows = append(s.Windows, windows[k].rates())
	}
	picks := s.Windows[midWindow].Decisions - s.Windows[midWindow].Refused
	for i := range s.Pods {
		p := &s.Pods[i]
		if picks > 0 {
			p.PicksShare = new(float64(p.Picks[midWindow]) / float64(picks))
		}
		if c := byPod[p]; c != nil {
			p.TTFTP95 = quantile(c.ttft, .95)
			if c.prompt > 0 {
				p.CacheHitRatio = new(float64(c.cached) / float64(c.prompt))
				p.ComputedTokens = new(float64(max(c.prompt-c.cached, 0)) / float64(c.told))
			}
		}
	}
}

// decided counts a decision of window k; p is the pod that was picked, nil when it has
// left or none was.
func (w *tally) decided(rec *explain.Record, p *explain.PodSnapshot, k int) {
	w.Decisions++
	row := explain.Summarize(rec)
	for flag, counter := range map[string]*int{explain.FlagRefused: &w.Refused, explain.FlagRelaxed: &w.Relaxed, explain.FlagTie: &w.Ties} {
		if slices.Contains(row.Flags, flag) {
			*counter++
		}
	}
	if rec.Result.Refused == score.Saturated.String() {
		w.Shed++
	}
	w.took = append(w.took, rec.Timings.Total)
	loads := w.picked(rec)
	if p == nil {
		return
	}
	p.Picks[k]++
	if k != midWindow {
		return
	}
	if loads {
		p.Adapters.Loads++
	}
	if row.DecidedBy != "" {
		p.DecidedBy[row.DecidedBy]++
	}
}

// picked counts what the picked pod was like, and reports whether it has to load an
// adapter for it.
func (w *tally) picked(rec *explain.Record) (loads bool) {
	at := rec.Result.Index
	if at < 0 || at >= len(rec.Candidates) {
		return false
	}
	c := &rec.Candidates[at]
	if held := c.Cache.Value; held != nil && rec.Request.Blocks > 0 {
		w.match = append(w.match, *held/float64(rec.Request.Blocks))
	}
	if loads = rec.Request.Adapter != "" && c.Adapters.State == score.Known.String() && !c.Adapters.Match; loads {
		w.AdapterLoads++
	}
	return loads
}

// ended counts a request that ended in the window.
func (w *tally) ended(rec *explain.Record) {
	o := &rec.Outcome
	w.Completed++
	if o.Error != "" || o.Status >= 400 {
		w.Failed++
	}
	if slices.Contains(explain.Summarize(rec).Flags, explain.FlagStale) {
		w.Stale++
	}
	if o.TTFTSeconds != nil {
		w.ttft = append(w.ttft, *o.TTFTSeconds)
	}
	if o.CachedTokens != nil && o.PredictedCached != nil {
		w.PredictedTokens += *o.PredictedCached
		w.CachedTokens += *o.CachedTokens
	}
}

func (c *podTally) ended(rec *explain.Record, p *explain.PodSnapshot) {
	o := &rec.Outcome
	p.Served++
	if o.TTFTSeconds != nil {
		c.ttft = append(c.ttft, *o.TTFTSeconds)
	}
	if o.CachedTokens != nil && o.PromptTokens != nil {
		c.told++
		c.prompt += *o.PromptTokens
		c.cached += *o.CachedTokens
	}
}

func (w *tally) rates() explain.WindowRates {
	r := w.WindowRates
	if n := len(w.match); n > 0 {
		sum := 0.0
		for _, v := range w.match {
			sum += v
		}
		r.MatchRatio = new(sum / float64(n))
	}
	r.PickP50, r.PickP99 = quantile(w.took, .5), quantile(w.took, .99)
	r.TTFTP50, r.TTFTP95 = quantile(w.ttft, .5), quantile(w.ttft, .95)
	return r
}

// quantile sorts values; nil when there are none.
func quantile(values []float64, q float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	return new(values[min(int(q*float64(len(values))), len(values)-1)])
}
