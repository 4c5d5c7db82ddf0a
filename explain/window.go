package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/score"
)

// KindWindow is the Kind of a [Window].
const KindWindow = "Window"

// Window is a stretch of time beside the one before it, as long: what has changed,
// in the order in which a person on call would look.
type Window struct {
	APIVersion string    `json:"apiVersion"` // eppctl/v1
	Kind       string    `json:"kind"`       // Window
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"` // not included
	Decisions  int       `json:"decisions"`
	// DecisionsBefore are those of the time before, as long; 0 when nothing is known
	// of it, and then nothing can have moved.
	DecisionsBefore int `json:"decisionsBefore"`
	// Verdict says in one sentence what moved.
	Verdict string   `json:"verdict"`
	TTFT    Measured `json:"ttftSeconds"`
	Checks  []Check  `json:"checks"` // in this order: cacheMatch, queueDepth, candidates, scoring, stale
	Ladder  *Ladder  `json:"ladder"` // null when no request could reuse anything
	// Adapters is null when no request needed one.
	Adapters *AdapterUse `json:"adapters"`
}

// Check is one of the questions, with its figures.
type Check struct {
	Name     string   `json:"name"`
	Question string   `json:"question"`
	Measured Measured `json:"measured"`
	Unit     string   `json:"unit"`
	Moved    bool     `json:"moved"` // for the worse, by more than it does by itself
	Text     string   `json:"text"`
}

// Measured is the distribution of a value, now and in the time before.
type Measured struct {
	Now    Quantiles `json:"now"`
	Before Quantiles `json:"before"`
}

// Quantiles of a value; null without a value.
type Quantiles struct {
	Count int      `json:"count"`
	Mean  *float64 `json:"mean"`
	P10   *float64 `json:"p10"`
	P50   *float64 `json:"p50"`
	P90   *float64 `json:"p90"`
	P99   *float64 `json:"p99"`
}

// MaxWindow is how many decisions a [WindowReader] takes in: more are passed over.
const MaxWindow = 1_000_000

// WindowReader takes in the decisions of a window and of the time before it, in
// any order, and keeps some hundred bytes of each. Make one with NewWindow.
type WindowReader struct {
	since, until time.Time
	samples      []sample
	pools        map[string]map[string]bool // the endpoints of a pool, by all of them
	// Passed are the decisions beyond [MaxWindow].
	Passed int
}

// sample is what a window looks at in one decision. Values that are not known are
// negative.
type sample struct {
	at                       time.Time
	rungs                    rungs
	chain                    []string
	pool                     map[string]bool // endpoints, shared with other samples
	server                   string          // the endpoint that has the prompt from left on
	left                     time.Time
	blocks, blockSize        int
	match, depth, candidates float64
	scoring, stale, ttft     float64
	maxQueue                 int
	adapter, pod             string
	adapterLoads             bool
}

// NewWindow reads the decisions from since until, and as long before.
func NewWindow(since, until time.Time) *WindowReader {
	return &WindowReader{since: since, until: until, pools: map[string]map[string]bool{}}
}

// From is the beginning of what the window has to be shown.
func (w *WindowReader) From() time.Time { return w.since.Add(w.since.Sub(w.until)) }

// See looks at a decision.
func (w *WindowReader) See(rec *Record) {
	switch {
	case rec.Time.Before(w.From()) || !rec.Time.Before(w.until):
		return
	case len(w.samples) == MaxWindow:
		w.Passed++
		return
	}
	s := sampleOf(rec)
	if s.chain != nil {
		s.pool = w.poolOf(rec)
	}
	w.samples = append(w.samples, s)
}

// poolOf makes one set of endpoints for all decisions over the same.
func (w *WindowReader) poolOf(rec *Record) map[string]bool {
	var key strings.Builder
	for i := range rec.Candidates {
		key.WriteString(rec.Candidates[i].Endpoint)
		key.WriteByte(0)
	}
	pool := w.pools[key.String()]
	if pool == nil {
		pool = make(map[string]bool, len(rec.Candidates))
		for i := range rec.Candidates {
			pool[rec.Candidates[i].Endpoint] = true
		}
		w.pools[key.String()] = pool
	}
	return pool
}

func sampleOf(rec *Record) sample {
	q := &rec.Request
	s := sample{
		at: rec.Time, match: -1, depth: -1, stale: -1, ttft: -1, scoring: rec.Timings.Total,
		blocks: q.Blocks, blockSize: q.BlockSize, maxQueue: rec.Weights.MaxQueue, rungs: climb(rec, 0, ""),
	}
	if q.chained() && rec.sameTokens() {
		s.chain = q.Chain
		s.server, s.left = rec.leftAt()
	}
	for i := range rec.Candidates {
		c := &rec.Candidates[i]
		if c.Reason == "" {
			s.candidates++
		}
		if c.Waiting.Value != nil && c.Waiting.State != score.Unknown.String() {
			s.depth = max(s.depth, *c.Waiting.Value+float64(c.Pending+c.PeerPending))
		}
	}
	s.ofPick(rec)
	if o := &rec.Outcome; o.TTFTSeconds != nil {
		s.ttft = *o.TTFTSeconds
	}
	if s.scoring == 0 { // a log without the end of the run
		s.scoring = -1
	}
	if rec.Origin != nil { // its limits never apply
		s.maxQueue = 0
	}
	switch cacheOutcome(rec) {
	case CacheStale:
		if s.stale = 1; rec.misguessed() {
			s.stale = -1
		}
	case CacheAsPredicted, CacheMore:
		s.stale = 0
	}
	return s
}

func (s *sample) ofPick(rec *Record) {
	i := rec.Result.Index
	if i < 0 || i >= len(rec.Candidates) {
		return
	}
	c := &rec.Candidates[i]
	s.pod = c.Pod
	if held, ok := c.held(); ok && s.blocks > 0 {
		s.match = held / float64(s.blocks)
	} else if rec.Origin != nil {
		s.match = c.prefixScore()
	}
	if s.adapter = rec.Request.Adapter; s.adapter != "" && c.Adapters.State == score.Known.String() {
		s.adapterLoads = !c.Adapters.Match
	}
}

// prefixScore is what llm-d's prefix cache scorer said of a pod, which is the share
// of the prompt that it took it to hold; negative when it is not known.
func (c *Candidate) prefixScore() float64 {
	for i := range c.Custom {
		if v := &c.Custom[i]; strings.Contains(v.Name, "prefix-cache") && v.Value != nil {
			return *v.Value
		}
	}
	return -1
}

// Window is the result. It may be called once.
func (w *WindowReader) Window() *Window {
	slices.SortStableFunc(w.samples, func(a, b sample) int { return a.at.Compare(b.at) })
	w.findIdeal()
	first, _ := slices.BinarySearchFunc(w.samples, w.since, func(s sample, t time.Time) int { return s.at.Compare(t) })
	before, now := w.samples[:first], w.samples[first:]
	out := &Window{
		APIVersion: APIVersion, Kind: KindWindow, Since: w.since.UTC(), Until: w.until.UTC(),
		Decisions: len(now), DecisionsBefore: len(before),
		TTFT:   measure(now, before, func(s *sample) float64 { return s.ttft }),
		Checks: checks(now, before),
	}
	ladder := new(Ladder)
	for i := range now {
		ladder.add(&now[i].rungs)
	}
	if ladder.Requests > 0 {
		ladder.sort()
		out.Ladder = ladder
	}
	out.Adapters = adapterUse(now, w.until.Sub(w.since))
	out.Verdict = out.verdict()
	return out
}

// trace is where a block was left, and when.
type trace struct {
	server string
	at     time.Time
}

// findIdeal finds how much of each prompt an earlier one had left in a cache: the
// last of its ids of which that is known.
func (w *WindowReader) findIdeal() {
	seen := map[string]trace{}
	for i := range w.samples {
		s := &w.samples[i]
		for k, id := range slices.Backward(s.chain) {
			if t, ok := seen[id]; ok && !t.at.After(s.at) {
				s.rungs.raise(ChainBlock(k, s.blocks, s.blockSize), s.blockSize, goneCause(s.pool[t.server]))
				break
			}
		}
		if s.server == "" {
			continue
		}
		for _, id := range s.chain {
			if t, ok := seen[id]; !ok || s.left.Before(t.at) || !s.pool[t.server] {
				seen[id] = trace{s.server, s.left}
			}
		}
	}
}

// raise lifts the ideal to a number of blocks; steps that are not known follow. gone
// is why they are no longer there if they are not.
func (r *rungs) raise(blocks, blockSize int, gone string) {
	if r.useless {
		return
	}
	r.cause[1] = gone
	ideal := max(r.tokens[0], reusable(blocks, r.prompt, blockSize))
	for i, known := range r.known {
		if i > 0 && known {
			return
		}
		r.tokens[i] = ideal
	}
}

// measure makes the distributions of a value; negative ones are not known.
func measure(now, before []sample, value func(*sample) float64) Measured {
	return Measured{Now: quantiles(now, value), Before: quantiles(before, value)}
}

func quantiles(samples []sample, value func(*sample) float64) (q Quantiles) {
	values := make([]float64, 0, len(samples))
	sum := 0.0
	for i := range samples {
		if v := value(&samples[i]); v >= 0 {
			values = append(values, v)
			sum += v
		}
	}
	if q.Count = len(values); q.Count == 0 {
		return q
	}
	slices.SortFunc(values, cmp.Compare[float64])
	at := func(p float64) *float64 { return new(values[min(len(values)-1, int(p*float64(len(values))))]) }
	q.Mean, q.P10, q.P50, q.P90, q.P99 = new(sum/float64(len(values))), at(.1), at(.5), at(.9), at(.99)
	return q
}
