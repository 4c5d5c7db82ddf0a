package explain

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/eppctl/eppctl/score"
)

// The steps of a ladder.
const (
	StepIdeal     = "ideal"     // a pod had it at some time
	StepKept      = "kept"      // a pod of the pool still has it
	StepAvailable = "available" // and may be picked
	StepPredicted = "predicted" // and was picked
	StepActual    = "actual"    // the engine found it in its cache
)

// Ladder says how many of the prompt's tokens could have come from a cache, step
// by step down to what did.
type Ladder struct {
	Requests     int    `json:"requests"`
	PromptTokens int    `json:"promptTokens"`
	Steps        []Step `json:"steps"` // in the order of the constants
}

// Step is one step of a ladder.
type Step struct {
	Name   string `json:"name"`
	Tokens int    `json:"tokens"`
	// Lost are the tokens that the step before has more, by cause, the most first.
	Lost []Loss `json:"lost"`
	// Unknown is the number of requests for which nothing is known of this step; they
	// count as if nothing was lost.
	Unknown int `json:"unknown"`
}

// Loss is what one cause took.
type Loss struct {
	Cause  string `json:"cause"` // of [Causes]
	Detail string `json:"detail"`
	Tokens int    `json:"tokens"`
}

var stepNames = [...]string{StepIdeal, StepKept, StepAvailable, StepPredicted, StepActual}

// rungs are the ladder of one decision, in tokens; what is not known is as the
// step before.
type rungs struct {
	tokens  [len(stepNames)]int
	known   [len(stepNames)]bool
	cause   [len(stepNames)]string
	detail  [len(stepNames)]string
	prompt  int
	useless bool // the request has no prefix to reuse, or was refused
}

// leftAt is the endpoint in whose cache a request has left its prompt, and from when
// on that is known there; the endpoint is "" when it is not known to have: it failed,
// it has not ended, or its ids were not the engine's.
func (r *Record) leftAt() (endpoint string, at time.Time) {
	const longest = 1e6 // seconds
	_, endpoint = r.server()
	if d := r.Outcome.DurationSeconds; endpoint != "" && d != nil && *d >= 0 && *d < longest && r.sameTokens() {
		return endpoint, r.Time.Add(time.Duration(*d*float64(time.Second)) + settled)
	}
	return "", time.Time{}
}

// goneCause is why a pod of the pool no longer has what an endpoint had.
func goneCause(inPool bool) string {
	if inPool {
		return CauseEvictedSeen
	}
	return CauseOwnerRemoved
}

// climb makes the ladder of a decision. ideal is how many blocks of the prompt an
// earlier request has left somewhere, as far as that is known, and gone why they are
// no longer there if they are not.
func climb(rec *Record, ideal int, gone string) rungs {
	q := &rec.Request
	out := rungs{prompt: q.PrefixTokens, useless: q.Blocks == 0 || q.NoPrefix != "" || rec.Result.Refused != ""}
	if out.useless {
		return out
	}
	owner, kept, known := rec.best(func(*Candidate) bool { return true })
	_, available, _ := rec.best(func(c *Candidate) bool { return c.Reason == "" })
	out.set(0, max(ideal, int(kept)), q, true, "", "")
	out.set(1, int(kept), q, known, gone, "")
	out.set(2, int(available), q, known, exclusionCause(owner), "")
	picked := -1.0
	if i := rec.Result.Index; i >= 0 && i < len(rec.Candidates) {
		if held, ok := rec.Candidates[i].held(); ok {
			picked = held
		}
	}
	out.set(3, int(max(picked, 0)), q, picked >= 0, CauseAsDesigned, rec.decidedBy())
	o := &rec.Outcome
	actual := o.CachedTokens != nil && (o.ServedEndpoint == "" || o.ServedEndpoint == rec.Result.Endpoint)
	out.tokens[4] = out.tokens[3]
	if out.known[4] = actual; actual {
		out.tokens[4] = *o.CachedTokens
		out.cause[4] = lessCause(o.Prediction)
		if rec.misguessed() {
			out.cause[4] = CauseTokensApproximate
		}
	}
	return out
}

// misguessed reports whether the prediction was made with ids that were not the
// engine's, so that it tells nothing of the cache, unless an eviction was seen.
func (r *Record) misguessed() bool {
	class := r.Outcome.Prediction
	return !r.sameTokens() && class != PredictionUnseen && class != PredictionRaced
}

// reusable is how many tokens of a prompt an engine finds in so many blocks: the
// last token never comes from the cache.
func reusable(blocks, prompt, blockSize int) int {
	return min(blocks, max(0, (prompt-1)/max(1, blockSize))) * blockSize
}

// set notes a step's blocks as the tokens that the engine would find. No step but
// the last has more than the one before it.
func (r *rungs) set(step, blocks int, q *Request, known bool, cause, detail string) {
	before := r.prompt
	if step > 0 {
		before = r.tokens[step-1]
	}
	r.known[step], r.cause[step], r.detail[step] = known, cause, detail
	if r.tokens[step] = before; known {
		r.tokens[step] = min(before, reusable(blocks, q.PrefixTokens, q.BlockSize))
	}
}

// best is the candidate that holds most of the prompt, of those that are wanted.
func (r *Record) best(want func(*Candidate) bool) (best *Candidate, blocks float64, known bool) {
	for i := range r.Candidates {
		c := &r.Candidates[i]
		held, ok := c.held()
		if !ok || !want(c) {
			continue
		}
		if !known || held > blocks {
			best, blocks, known = c, held, true
		}
	}
	return best, blocks, known
}

func exclusionCause(owner *Candidate) string {
	if owner == nil {
		return CauseOwnerRemoved
	}
	switch owner.Reason {
	case score.QueueFull.String():
		return CauseOwnerQueueFull
	case score.Unhealthy.String():
		return CauseOwnerUnhealthy
	case score.NotInSubset.String():
		return CauseSubset
	}
	return CauseOwnerRemoved
}

// decidedBy is what decided in place of the cache.
func (r *Record) decidedBy() string {
	if !byScores(r.Policy) {
		return "decided by policy " + r.Policy
	}
	return "decided by " + r.Result.DecidedBy
}

// add counts another decision's ladder in.
func (l *Ladder) add(r *rungs) {
	if r.useless {
		return
	}
	if l.Steps == nil {
		for _, name := range stepNames {
			l.Steps = append(l.Steps, Step{Name: name, Lost: []Loss{}})
		}
	}
	l.Requests++
	l.PromptTokens += r.prompt
	for i := range l.Steps {
		s := &l.Steps[i]
		s.Tokens += r.tokens[i]
		if !r.known[i] {
			s.Unknown++
		}
		if i > 0 && r.tokens[i] < r.tokens[i-1] {
			s.lose(r.cause[i], r.detail[i], r.tokens[i-1]-r.tokens[i])
		}
	}
}

func (s *Step) lose(cause, detail string, tokens int) {
	for i := range s.Lost {
		if s.Lost[i].Cause == cause && s.Lost[i].Detail == detail {
			s.Lost[i].Tokens += tokens
			return
		}
	}
	s.Lost = append(s.Lost, Loss{cause, detail, tokens})
}

// sort puts the largest losses first.
func (l *Ladder) sort() {
	for i := range l.Steps {
		slices.SortStableFunc(l.Steps[i].Lost, func(a, b Loss) int { return b.Tokens - a.Tokens })
	}
}

// LadderOf is the ladder of one decision; earlier are decisions that may have
// shared the prompt's prefix. It is nil for a request that has no prefix to reuse.
func LadderOf(rec *Record, earlier []*Record) *Ladder {
	ideal, gone := 0, ""
	for _, p := range priorsOf(rec, earlier) {
		if endpoint, at := p.rec.leftAt(); endpoint != "" && rec.sameTokens() && !at.After(rec.Time) {
			ideal, gone = p.shared, goneCause(rec.hasEndpoint(endpoint))
			break // the most
		}
	}
	r := climb(rec, ideal, gone)
	if r.useless {
		return nil
	}
	l := new(Ladder)
	l.add(&r)
	return l
}

func (r *Record) hasEndpoint(endpoint string) bool {
	return slices.ContainsFunc(r.Candidates, func(c Candidate) bool { return c.Endpoint == endpoint })
}

var stepTexts = map[string]string{
	StepIdeal:     "a pod had it once",
	StepKept:      "a pod still had it",
	StepAvailable: "and could be picked",
	StepPredicted: "and was picked",
	StepActual:    "the engine found it",
}

func (l *Ladder) write(p *page) {
	p.row(Strong, "", "cached tokens, step by step, "+l.title()+":")
	for i := range l.Steps {
		s := &l.Steps[i]
		tokens := strconv.Itoa(s.Tokens)
		if s.Unknown == l.Requests {
			tokens = "unknown"
		}
		p.row(Plain, "  "+pad(s.Name, 10), fmt.Sprintf("%10s  %6s  %s", tokens, l.share(s), s.text(l.Requests)))
		for k := range s.Lost {
			p.row(Warn, "                                ", s.Lost[k].text())
		}
	}
}

func (l *Ladder) title() string {
	title := fmt.Sprintf("of %d in the prompt", l.PromptTokens)
	if l.Requests > 1 {
		title = fmt.Sprintf("of %d in the prompts of %d requests", l.PromptTokens, l.Requests)
	}
	return title
}

// share is a step's part of the prompt, "" when it is not known.
func (l *Ladder) share(s *Step) string {
	if l.PromptTokens == 0 || s.Unknown == l.Requests {
		return ""
	}
	return decimal(100*float64(s.Tokens)/float64(l.PromptTokens), 1) + "%"
}

// lossy reports whether tokens were lost between two steps.
func (l *Ladder) lossy() bool {
	return slices.ContainsFunc(l.Steps, func(s Step) bool { return len(s.Lost) > 0 })
}

func (s *Step) text(requests int) string {
	text := stepTexts[s.Name]
	if s.Unknown > 0 && s.Unknown < requests {
		text += fmt.Sprintf(" (not known of %s)", count(s.Unknown, "request"))
	}
	return text
}

func (l *Loss) text() string {
	text := fmt.Sprintf("-%d: %s", l.Tokens, l.Cause)
	if l.Detail != "" {
		text += ", " + l.Detail
	}
	return text
}
