package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/eppctl/eppctl/score"
)

// The owner of a prompt is the pod that holds most of it, or held it.

// prior is an earlier decision whose prompt began alike.
type prior struct {
	rec    *Record
	shared int // blocks, at least
}

// priorsOf finds those among records: the longest beginning first, and of equal
// ones the newest.
func priorsOf(rec *Record, earlier []*Record) []prior {
	var out []prior
	for _, e := range earlier {
		if !e.Time.Before(rec.Time) || e.DecisionID == rec.DecisionID {
			continue
		}
		if shared := SharedBlocks(&e.Request, &rec.Request); shared > 0 {
			out = append(out, prior{e, shared})
		}
	}
	slices.SortStableFunc(out, func(a, b prior) int {
		return cmp.Or(cmp.Compare(b.shared, a.shared), b.rec.Time.Compare(a.rec.Time))
	})
	return out
}

// sameTokens reports whether the ids that the request was routed by were the
// engine's, as far as that shows: guessed ones are when they are as many.
func (r *Record) sameTokens() bool {
	counted := r.Outcome.PromptTokens
	return r.Request.TokensFrom != approximate || counted != nil && *counted == r.Request.PromptTokens
}

// server is the pod that served a request to its end, "" when that is not known.
func (r *Record) server() (pod, endpoint string) {
	o := &r.Outcome
	if o.State != OutcomeDone || o.Status < 200 || o.Status > 299 || o.ServedEndpoint == "" {
		return "", ""
	}
	for i := range r.Candidates {
		if c := &r.Candidates[i]; c.Endpoint == o.ServedEndpoint {
			return c.Pod, c.Endpoint
		}
	}
	return "", ""
}

// settled is how long after a request's end its pod's reports and events are
// expected to have told what it left in the cache.
const settled = 3 * time.Second

// leftBehind reports whether the request had ended long enough before the moment.
func (r *Record) leftBehind(moment time.Time) bool {
	if r.Outcome.DurationSeconds == nil {
		return false
	}
	end := r.Time.Add(time.Duration(*r.Outcome.DurationSeconds * float64(time.Second)))
	return moment.Sub(end) >= settled
}

// held is how many of the prompt's blocks a candidate was known to hold, in whatever
// tier, also by a value that is stale; not ok when nothing is known.
func (c *Candidate) held() (blocks float64, ok bool) {
	if c.Cache.Value == nil || c.Cache.State == score.Unknown.String() {
		return 0, false
	}
	if len(c.Cache.Tiers) == 0 {
		return *c.Cache.Value, true
	}
	for _, t := range c.Cache.Tiers {
		blocks += float64(t.Blocks)
	}
	return blocks, true
}

// most is the most blocks that one of the pods that could win held.
func (f *finder) most() (most float64) {
	for i := range f.in.rec.Candidates {
		c := &f.in.rec.Candidates[i]
		if blocks, ok := c.held(); ok && c.Reason == "" {
			most = max(most, blocks)
		}
	}
	return most
}

// kept names the best of the excluded pods that would have beaten the winner, or
// that held more of the prompt than any that could win.
func (f *finder) kept() (cause, text string) {
	if len(f.Candidates) == 0 {
		return "", ""
	}
	best := f.bestExcluded()
	if best == nil {
		return "", ""
	}
	switch best.Reason {
	case score.QueueFull.String():
		cause = CauseOwnerQueueFull
	case score.Unhealthy.String():
		cause = CauseOwnerUnhealthy
	case score.NotInSubset.String():
		cause = CauseSubset
	default:
		cause = CauseOwnerRemoved
	}
	would := "held more of the prompt than any pod that could win"
	if best.WouldScore != nil {
		would = "would have won with " + points(*best.WouldScore)
	}
	return cause, fmt.Sprintf("%s %s, but was excluded: %s (%s)", best.Pod, would, best.Reason, best.Detail)
}

func (f *finder) bestExcluded() *Exclusion {
	if x := &f.Excluded; len(*x) > 0 && (*x)[0].WouldScore != nil { // they stand in this order
		if best := &(*x)[0]; *best.WouldScore > f.Candidates[0].Score {
			return best
		}
	}
	most := f.most()
	var owner *Exclusion
	for i := range f.Excluded {
		x := &f.Excluded[i]
		c := f.in.rec.candidate(x.Pod, x.Endpoint)
		if x.WouldScore != nil || c == nil {
			continue
		}
		if blocks, ok := c.held(); ok && blocks > most {
			owner, most = x, blocks
		}
	}
	return owner
}

// place is the index of a candidate; −1 when there is none.
func (r *Record) place(pod, endpoint string) int {
	return slices.IndexFunc(r.Candidates, func(c Candidate) bool { return c.Pod == pod && c.Endpoint == endpoint })
}

func (r *Record) candidate(pod, endpoint string) *Candidate {
	if i := r.place(pod, endpoint); i >= 0 {
		return &r.Candidates[i]
	}
	return nil
}

// lost tells of a prefix that an earlier request left on a pod and that no pod
// holds any longer.
func (f *finder) lost() (cause, text string, evidence Evidence) {
	if !f.in.rec.sameTokens() {
		return "", "", Evidence{}
	}
	for i := range f.priors {
		p := &f.priors[i]
		pod, endpoint := p.rec.server()
		if pod == "" || !p.rec.leftBehind(f.Time) || !p.rec.sameTokens() {
			continue
		}
		if f.someoneHolds(float64(p.shared)) {
			return "", "", Evidence{}
		}
		evidence = Evidence{p.rec.RequestID, p.rec.DecisionID, fmt.Sprintf("%s began alike, by %s at least, and was served by %s, %s before",
			p.rec.Time.UTC().Format(time.TimeOnly), count(p.shared, "block"), pod, ageText(f.Time.Sub(p.rec.Time).Seconds()))}
		c := f.in.rec.candidate(pod, endpoint)
		if c == nil {
			return CauseOwnerRemoved, pod + ", which had the prefix, is no longer in the pool", evidence
		}
		if blocks, ok := c.held(); ok && c.Cache.State != score.Stale.String() {
			return CauseEvictedSeen, fmt.Sprintf("%s had the prefix and now holds %s of it", pod, count(int(blocks), "block")), evidence
		}
		return "", "", Evidence{}
	}
	return "", "", Evidence{}
}

// someoneHolds reports whether a pod holds so much of the prompt, or may: what is
// not known of a pod, and what the engine found after all.
func (f *finder) someoneHolds(blocks float64) bool {
	for i := range f.in.rec.Candidates {
		if held, ok := f.in.rec.Candidates[i].held(); ok && held >= blocks {
			return true
		}
	}
	cached := f.Outcome.CachedTokens
	return cached != nil && float64(*cached) >= (blocks-1)*float64(f.BlockSize) && *cached > 0
}

// noReuse says that there was nothing to reuse, as far as that is known.
func (f *finder) noReuse() string {
	switch {
	case f.Refused != "" || len(f.priors) > 0:
		return ""
	case f.NoPrefix != "":
		return "no prefix to reuse: " + f.NoPrefix
	case f.Blocks == 0:
		return "the prompt is shorter than one block, so there is nothing to reuse"
	}
	for i := range f.in.rec.Candidates {
		if held, ok := f.in.rec.Candidates[i].held(); !ok || held > 0 {
			return ""
		}
	}
	return "no pod holds a block of the prompt"
}
