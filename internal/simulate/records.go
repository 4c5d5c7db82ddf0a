package simulate

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/eppctl/eppctl/explain"
)

// Records makes a trace of recorded decisions. A record has ids of some blocks of its
// prompt, one for each 512 tokens, and what pods held of it, so that two prompts share
// what they shared to within that. Ids compare only under one record key.
type Records struct {
	c       collector
	held    []held // by request
	unknown int    // requests whose answer's length is not known
	// Skipped are decisions without a prompt that can be routed by.
	Skipped int
}

// Add takes a record; their order does not matter.
func (r *Records) Add(rec *explain.Record) error {
	q := &rec.Request
	tokens := max(q.PrefixTokens, q.PromptTokens)
	if tokens < 1 || tokens > maxTokens {
		r.Skipped++
		return nil
	}
	out := Request{At: rec.Time.Sub(epoch), Adapter: q.Adapter}
	end := 0
	for i, id := range q.Chain {
		at := explain.ChainBlock(i, q.Blocks, q.BlockSize) * q.BlockSize
		if at > end && at <= tokens {
			out.Prompt = then(out.Prompt, xxhash.Sum64String(id), at-end)
			end = at
		}
	}
	if end < tokens {
		out.Prompt = then(out.Prompt, xxhash.Sum64String(rec.DecisionID), tokens-end)
	}
	if n := rec.Outcome.OutputTokens; n != nil && *n >= 1 && *n <= maxTokens {
		out.Output = *n
	}
	if err := r.c.add(out); err != nil {
		return err
	}
	r.held = append(r.held, heldOf(rec))
	return nil
}

// Unknown is how many answers of the trace have the median length of the others, as
// their own is not recorded.
func (r *Records) Unknown() int { return r.unknown }

// usualAnswer is the length of answers where no record has one.
const usualAnswer = 128

// Trace is the first of the requests, limit of them; 0: all.
func (r *Records) Trace(name string, limit int) (*Trace, error) {
	r.sort()
	r.join()
	all := r.c.trace.Requests
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	usual, sessions := medianAnswer(all), newSessions()
	for i := range all {
		sessions.name(&all[i])
		if all[i].Output == 0 {
			all[i].Output = usual
			r.unknown++
		}
	}
	r.c.trace.Requests, r.c.trace.Name = all, name
	return r.c.finish()
}

func medianAnswer(all []Request) int {
	var known []int
	for i := range all {
		if n := all[i].Output; n > 0 {
			known = append(known, n)
		}
	}
	if len(known) == 0 {
		return usualAnswer
	}
	slices.Sort(known)
	return known[len(known)/2]
}
