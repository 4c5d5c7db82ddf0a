package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eppctl/eppctl/internal/load"
)

// A Trace is the requests of a run, in the order of their arrival.
type Trace struct {
	Name     string // as it was asked for
	Requests []Request
	Adapters []Adapter // that its requests need
}

// An Adapter is a LoRA adapter. Rank 0 is the usual one, 16.
type Adapter struct {
	Name string `yaml:"name"`
	Rank int    `yaml:"rank"`
}

// A Request is one request of a trace. Its text is pieces: equal ids in front mean
// equal tokens in front.
type Request struct {
	At      time.Duration // of its arrival
	Prompt  []Piece
	Output  int    // tokens of the answer
	Answer  uint64 // id of the answer's tokens; 0: made up by the engine, and in no prompt
	Adapter string // "" for the base model
	// What proxies see of it: the conversation (a cookie or a header), the client's
	// address, and the URI.
	Session, Client, URI uint64
	// Spelling is another number where URI and body are spelled otherwise, with the
	// same tokens: other white space, a parameter more.
	Spelling uint64
	Turn     int // in its conversation, counted from 1
}

// A Piece is a part of a prompt: token i of it is a function of ID and i.
type Piece struct {
	ID  uint64
	End int // tokens of the prompt up to the end of the piece
}

// Input is the length of the prompt in tokens.
func (r *Request) Input() int { return text(r.Prompt).Len() }

// then appends a piece of so many tokens.
func then(prompt []Piece, id uint64, tokens int) []Piece {
	return append(prompt, Piece{ID: id, End: text(prompt).Len() + tokens})
}

// text is a prompt's tokens.
type text []Piece

// Len implements vllm.Text.
func (t text) Len() int {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1].End
}

// Append implements vllm.Text.
func (t text) Append(dst []uint32, from, to int) []uint32 {
	i, _ := slices.BinarySearchFunc(t, from+1, func(p Piece, at int) int { return cmp.Compare(p.End, at) })
	for ; from < to; i++ {
		start := 0
		if i > 0 {
			start = t[i-1].End
		}
		for end := min(to, t[i].End); from < end; from++ {
			dst = append(dst, load.Token(t[i].ID, from-start))
		}
	}
	return dst
}

// Bounds of a trace, which is held in memory.
const (
	maxRequests = 1 << 21
	maxPieces   = 1 << 25
	maxTokens   = 1 << 20 // of a prompt, and of an answer
)

// collector gathers a trace within its bounds.
type collector struct {
	trace  Trace
	limit  int
	pieces int
}

// errFull ends reading: there are as many requests as were asked for.
var errFull = errors.New("as many requests as were asked for")

func (c *collector) add(r Request) error {
	if c.limit > 0 && len(c.trace.Requests) >= c.limit {
		return errFull
	}
	c.pieces += len(r.Prompt)
	if len(c.trace.Requests) >= maxRequests || c.pieces > maxPieces {
		return fmt.Errorf("the trace is too long: at most %d requests with %d pieces of prompts are held; give --limit", maxRequests, maxPieces)
	}
	c.trace.Requests = append(c.trace.Requests, r)
	if r.Adapter != "" && !slices.ContainsFunc(c.trace.Adapters, func(a Adapter) bool { return a.Name == r.Adapter }) {
		c.trace.Adapters = append(c.trace.Adapters, Adapter{Name: r.Adapter})
	}
	return nil
}

// finish sorts the requests by arrival and lets the first come at 0.
func (c *collector) finish() (*Trace, error) {
	all := c.trace.Requests
	if len(all) == 0 {
		return nil, errors.New("no request in it")
	}
	slices.SortStableFunc(all, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	first := all[0].At
	for i := range all {
		all[i].At -= first
	}
	if last := all[len(all)-1].At; last > longest {
		return nil, fmt.Errorf("it lasts %v, at most %v can be simulated", last, longest)
	}
	return &c.trace, nil
}

// longest bounds a trace's time.
const longest = 366 * 24 * time.Hour

// Scale makes arrivals come factor times as fast.
func (t *Trace) Scale(factor float64) error {
	if !(factor >= 1e-3 && factor <= 1e6) {
		return fmt.Errorf("a factor of %v on arrivals is not between 0.001 and 1000000", factor)
	}
	for i := range t.Requests {
		t.Requests[i].At = time.Duration(float64(t.Requests[i].At) / factor)
	}
	return nil
}

// Rate is the mean rate of arrivals a second; 0 when all come at once.
func (t *Trace) Rate() float64 {
	n := len(t.Requests) - 1
	if n < 1 || t.Requests[n].At == 0 {
		return 0
	}
	return float64(n) / t.Requests[n].At.Seconds()
}
