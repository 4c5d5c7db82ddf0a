package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// KindConversation is the Kind of a [Conversation].
const KindConversation = "Conversation"

// Conversation is a chain of requests of which each began with the one before it.
// It is found by the ids of blocks in the records, and so as exact as these are:
// of a short prompt to the last power of two blocks, of a long one to 512 tokens.
type Conversation struct {
	APIVersion string `json:"apiVersion"` // eppctl/v1
	Kind       string `json:"kind"`       // Conversation
	// RequestID and DecisionID are those that were asked for.
	RequestID  string `json:"requestID"`
	DecisionID string `json:"decisionID"`
	Model      string `json:"model"`
	Moves      int    `json:"moves"` // turns that went to another pod than the one before
	Turns      []Turn `json:"turns"` // oldest first
}

// Turn is one request of a conversation.
type Turn struct {
	RequestID    string    `json:"requestID"`
	DecisionID   string    `json:"decisionID"`
	Time         time.Time `json:"time"`
	Asked        bool      `json:"asked"`        // the request that was asked for
	PromptTokens *int      `json:"promptTokens"` // null when another picker's log does not tell
	// SharedBlocks is what it has in common with the turn before, at least.
	SharedBlocks int    `json:"sharedBlocks"`
	Pod          string `json:"pod"` // that served it, or that was picked; "" when refused
	// PredictedCached and CachedTokens are what the picker expected and what the
	// engine found in its cache; null when not known.
	PredictedCached *int     `json:"predictedCachedTokens"`
	CachedTokens    *int     `json:"cachedTokens"`
	TTFTSeconds     *float64 `json:"ttftSeconds"`
	Moved           bool     `json:"moved"` // to another pod than the turn before
	Cause           string   `json:"cause"`
	// Why is what made it so, in words; "" for a turn that stayed where it was and of
	// which nothing is remarkable.
	Why string `json:"why"`
}

// Converse finds the conversation of a decision among others, in any order.
func Converse(rec *Record, others []*Record) *Conversation {
	turns := []*Record{rec}
	for before := turnBefore(rec, others); before != nil; before = turnBefore(before, others) {
		turns = append([]*Record{before}, turns...)
	}
	for after := turnAfter(rec, others); after != nil; after = turnAfter(after, others) {
		turns = append(turns, after)
	}
	out := &Conversation{
		APIVersion: APIVersion, Kind: KindConversation,
		RequestID: rec.RequestID, DecisionID: rec.DecisionID, Model: rec.Request.Model,
	}
	for i, t := range turns {
		turn := turnOf(t, turns[:i])
		turn.Asked = t == rec
		if turn.Moved {
			out.Moves++
		}
		out.Turns = append(out.Turns, turn)
	}
	return out
}

// turnBefore is the decision of which rec goes on: the one with most in common,
// of those that rec begins with.
func turnBefore(rec *Record, others []*Record) *Record {
	var best *Record
	most := 0
	for _, o := range others {
		if !o.Time.Before(rec.Time) || !continues(o, rec) {
			continue
		}
		shared := SharedBlocks(&o.Request, &rec.Request)
		if best == nil || shared > most || shared == most && o.Time.After(best.Time) {
			best, most = o, shared
		}
	}
	return best
}

// turnAfter is the first of the decisions that go on from rec.
func turnAfter(rec *Record, others []*Record) *Record {
	var first *Record
	for _, o := range others {
		if o.Time.After(rec.Time) && continues(rec, o) && (first == nil || o.Time.Before(first.Time)) {
			first = o
		}
	}
	return first
}

// longPrompt is how many steps of the chain a prompt has of which the last one may
// be another in the next turn: it ends in the middle of a message, as where clients
// cut or edit what was said last.
const longPrompt = 8

// continues reports whether b's prompt begins with all of a's, as far as their
// chains tell; of a long prompt, with all but the end. What the pod that served a
// holds of b tells more: as much as they have in common, and less than all of a,
// means that they only begin alike.
func continues(a, b *Record) bool {
	if a.Request.Blocks > b.Request.Blocks {
		return false
	}
	shared, last := SharedBlocks(&a.Request, &b.Request), a.Request.lastCommon(&b.Request)
	step := chainStep(a.Request.BlockSize)
	switch {
	case shared == 0:
		return false
	case a.Request.Blocks >= longPrompt*step && shared >= last-step:
		return true
	case shared < last:
		return false
	}
	pod, endpoint := a.server()
	if c := b.candidate(pod, endpoint); c != nil && shared < a.Request.Blocks {
		if held, ok := c.held(); ok && held >= float64(shared) && held < float64(a.Request.Blocks) {
			return false
		}
	}
	return true
}

// lastCommon is the last block of q of which both have an id.
func (q *Request) lastCommon(other *Request) int {
	for i := range slices.Backward(q.Chain) {
		at := ChainBlock(i, q.Blocks, q.BlockSize)
		for j := range other.Chain {
			if ChainBlock(j, other.Blocks, other.BlockSize) == at {
				return at
			}
		}
	}
	return 0
}

func turnOf(rec *Record, before []*Record) Turn {
	r := Explain(rec, Options{Flips: -1, Earlier: before})
	turn := Turn{
		RequestID: rec.RequestID, DecisionID: rec.DecisionID, Time: rec.Time, PromptTokens: rec.promptTokens(),
		Pod: rec.podOf(), PredictedCached: r.Outcome.PredictedCachedTokens, CachedTokens: r.Outcome.CachedTokens,
		TTFTSeconds: r.Outcome.TTFTSeconds, Cause: r.Cause,
	}
	if len(before) > 0 {
		last := before[len(before)-1]
		turn.SharedBlocks = SharedBlocks(&last.Request, &rec.Request)
		turn.Moved = turn.Pod != "" && last.podOf() != "" && turn.Pod != last.podOf()
	}
	if at := slices.IndexFunc(r.Notes, func(n Note) bool { return n.Cause == r.Cause }); at >= 0 && !benign(r.Cause) {
		turn.Why = r.Notes[at].Text
	} else if turn.Moved {
		turn.Why = "decided by " + r.DecidedBy
	}
	return turn
}

// podOf is the pod that served the request, or else the one that was picked.
func (r *Record) podOf() string {
	if pod, _ := r.server(); pod != "" {
		return pod
	}
	return r.Result.Pod
}

// conversationColumns are the columns of the text, and which are set to the right.
var conversationColumns = []struct {
	name  string
	right bool
}{{"", true}, {"TIME", false}, {"REQUEST", false}, {"TOKENS", true}, {"POD", false}, {"PREDICTED", true}, {"CACHED", true}, {"TTFT", true}}

// podColumn is the place of POD among them.
const podColumn = 4

// write adds the conversation to a text for people.
func (c *Conversation) write(p *page) {
	p.row(Strong, "", c.title()+":")
	rows := [][]string{{}}
	for _, column := range conversationColumns {
		rows[0] = append(rows[0], column.name)
	}
	for i := range c.Turns {
		rows = append(rows, c.Turns[i].cells(i))
	}
	widths := make([]int, len(conversationColumns))
	for _, row := range rows {
		for k := range row {
			row[k] = p.safe(row[k])
			widths[k] = max(widths[k], width(row[k]))
		}
	}
	for i, row := range rows {
		for k, cell := range row {
			if conversationColumns[k].right {
				row[k] = pad("", widths[k]-width(cell)) + cell
			} else {
				row[k] = pad(cell, widths[k])
			}
		}
		p.row(c.tone(i-1), "", strings.Join(row, "  "))
		if i > 0 && c.Turns[i-1].Why != "" {
			p.row(Plain, pad("", widths[0]+2), c.Turns[i-1].whyText(c.before(i-1)))
		}
	}
}

func (c *Conversation) title() string {
	title := count(len(c.Turns), "request") + " of this conversation"
	if c.Moves > 0 {
		title += ", " + count(c.Moves, "move") + " to another pod"
	}
	return title
}

func (c *Conversation) tone(turn int) Tone {
	switch {
	case turn < 0:
		return Faint
	case c.Turns[turn].Asked:
		return Strong
	case c.Turns[turn].Moved:
		return Warn
	}
	return Plain
}

func (c *Conversation) before(turn int) string {
	if turn == 0 {
		return ""
	}
	return c.Turns[turn-1].Pod
}

func (t *Turn) whyText(from string) string {
	if t.Moved {
		return "moved from " + from + ": " + t.Why + " (" + t.Cause + ")"
	}
	return t.Why + " (" + t.Cause + ")"
}

func (t *Turn) cells(i int) []string {
	tokens := func(n *int) string {
		if n == nil {
			return "–"
		}
		return strconv.Itoa(*n)
	}
	ttft := "–"
	if t.TTFTSeconds != nil {
		ttft = fmt.Sprintf("%.3fs", *t.TTFTSeconds)
	}
	pod := t.Pod
	if pod == "" {
		pod = "refused"
	}
	return []string{
		strconv.Itoa(i + 1), t.Time.UTC().Format(time.TimeOnly), shortID(t.RequestID), tokens(t.PromptTokens),
		pod, tokens(t.PredictedCached), tokens(t.CachedTokens), ttft,
	}
}
