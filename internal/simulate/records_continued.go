package simulate

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// A record has few ids of its prompt's blocks. What a prompt shares beyond the last one
// that was seen before is told by the caches: a pod held so many blocks of it. Where
// that is as long as an earlier prompt with its answer, the prompt goes on from there;
// else it goes on as the first did that had that id.

// held is what a pod had of a prompt, in tokens, and its blocks' size.
type held struct{ tokens, block int }

// heldOf is the most that a pod had.
func heldOf(rec *explain.Record) held {
	h := held{block: rec.Request.BlockSize}
	for i := range rec.Candidates {
		in := &rec.Candidates[i].Cache
		if s, ok := score.ParseState(in.State); ok && s.Usable() && in.Value != nil && in.Tiers == nil {
			h.tokens = max(h.tokens, min(int(*in.Value), rec.Request.Blocks)*h.block)
		}
	}
	return h
}

// sort puts requests, and what was held of them, in the order of arrival.
func (r *Records) sort() {
	order := make([]int, len(r.held))
	for i := range order {
		order[i] = i
	}
	all := r.c.trace.Requests
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[a].At, all[b].At) })
	requests, h := make([]Request, len(all)), make([]held, len(all))
	for to, from := range order {
		requests[to], h[to] = all[from], r.held[from]
	}
	r.c.trace.Requests, r.held = requests, h
}

// continuations are the prompts so far.
type continuations struct {
	all   []Request
	begun map[uint64]beginning // by id
	ended map[ending]int       // the last request that ended so
}

// beginning is the first tokens of a request's prompt.
type beginning struct{ request, tokens int }

// ending is a prompt with an id that is so long with its answer.
type ending struct {
	id     uint64
	tokens int
}

// join lets prompts, in the order of their arrival, begin as earlier ones did.
func (r *Records) join() {
	c := continuations{r.c.trace.Requests, map[uint64]beginning{}, map[ending]int{}}
	for i := range c.all {
		q := &c.all[i]
		ids := q.Prompt
		if k := c.known(ids); k >= 0 {
			q.Prompt = c.begin(ids[k].ID, r.held[i].tokens)
			begun := q.Input()
			for _, p := range ids {
				if p.End > begun {
					q.Prompt = append(q.Prompt, p)
				}
			}
		}
		c.see(ids, i, r.held[i].block)
	}
}

// known is the last piece that was seen before; −1: none.
func (c *continuations) known(ids []Piece) int {
	for k, p := range slices.Backward(ids) {
		if _, ok := c.begun[p.ID]; ok {
			return k
		}
	}
	return -1
}

// begin is the begin of a prompt that has a known id and of which so many tokens were
// held.
func (c *continuations) begin(id uint64, tokens int) []Piece {
	b := c.begun[id]
	if tokens <= b.tokens {
		return cutAt(c.all[b.request].Prompt, b.tokens)
	}
	i, ok := c.ended[ending{id, tokens}]
	if !ok {
		return cutAt(c.all[b.request].Prompt, tokens)
	}
	before := &c.all[i]
	if before.Answer == 0 {
		before.Answer = xxhash.Sum64String("answer") ^ before.Prompt[len(before.Prompt)-1].ID
	}
	return cutAt(then(clip(before.Prompt), before.Answer, before.Output), tokens)
}

// cutAt is the first so many tokens of a prompt, in memory of its own.
func cutAt(prompt []Piece, tokens int) []Piece {
	var out []Piece
	for _, p := range prompt {
		p.End = min(p.End, tokens)
		out = append(out, p)
		if p.End == tokens {
			break
		}
	}
	return out
}

// see notes a prompt by its ids.
func (c *continuations) see(ids []Piece, i, block int) {
	q := &c.all[i]
	long := 0
	if block > 0 && q.Output > 0 { // the last token of an answer is in no cache
		long = (q.Input() + q.Output - 1) / block * block
	}
	for _, p := range ids {
		if _, ok := c.begun[p.ID]; !ok {
			c.begun[p.ID] = beginning{i, p.End}
		}
		if long > 0 {
			c.ended[ending{p.ID, long}] = i
		}
	}
}
