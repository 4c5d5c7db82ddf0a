package picker

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/naming"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/score"
)

// MaxBlocks bounds the blocks that one request is matched by; a longer prompt is
// matched by its first MaxBlocks blocks (1,048,576 tokens at 16 a block).
const MaxBlocks = 1 << 16

// Observer is told of every step, after it was taken. Calls must be quick and
// must not keep the entry.
type Observer interface {
	// Picked follows a decision, also a refused one.
	Picked(e *record.Entry)
	// Completed follows the end of a request that had been picked for.
	Completed(p *Pick, o *record.Outcome, stale bool)
	// ScorerFailed counts a custom scorer that cost its factor.
	ScorerFailed(name string, how Failure)
}

// Recorder keeps decisions: a record.Ring, or a record.Store that also writes
// files.
type Recorder interface {
	Append(e *record.Entry) record.Handle
	Complete(h record.Handle, o *record.Outcome) bool
}

// Config is what a picker needs.
type Config struct {
	Pool      *pool.Pool
	Tree      *prefix.Tree
	Recorder  Recorder
	Clock     clock.Clock
	Weights   score.Weights
	Scorers   []Custom // in the order of Weights.Custom
	Policy    Policy
	BlockSize int
	Observer  Observer
	Logger    *slog.Logger
	// Tokeniser is asked about requests that come with a body; nil = the ids that
	// were read with the request.
	Tokeniser Tokeniser
	// ScorerDeadline is how long custom scorers may take, in wall time; default 1 ms.
	ScorerDeadline time.Duration
	// Random is where seeds and IDs come from, for picks that are to be the same each
	// time; nil: the system. With one only one goroutine may pick.
	Random rand.Source
	// Election says whether this picker may pick, of several; nil: it may.
	Election Election
	// Hasty judges a prediction when its request ends, and not once more when events
	// may have come that explain it: a simulation does not wait.
	Hasty bool
	// Settle is how long such events are waited for, in wall time; default 1 s.
	Settle time.Duration
}

// Picker picks pods. It is safe for concurrent use.
type Picker struct {
	cfg     Config
	weights atomic.Pointer[inForce]
	names   atomic.Pointer[naming.Table] // nil: no rules
	scratch sync.Pool
	scorers scorers
	turn    atomic.Uint64 // of round-robin
	open    atomic.Int64  // picks that have not ended
	settle  settler
}

// New checks the configuration and makes a picker.
func New(cfg Config) (*Picker, error) {
	if cfg.ScorerDeadline <= 0 {
		cfg.ScorerDeadline = time.Millisecond
	}
	if cfg.Settle <= 0 {
		cfg.Settle = settleTime
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.BlockSize < 1 {
		return nil, fmt.Errorf("block size must be at least 1, got %d", cfg.BlockSize)
	}
	if err := cfg.Weights.Validate(); err != nil {
		return nil, err
	}
	if err := checkScorers(cfg.Scorers, cfg.Weights.Custom); err != nil {
		return nil, err
	}
	p := &Picker{cfg: cfg, scorers: newScorers(cfg.Scorers)}
	p.settle.open()
	p.weights.Store(newInForce(cfg.Weights))
	p.scratch.New = func() any { return newScratch(cfg.Random) }
	return p, nil
}

// Open is the number of picks that have not ended: the ledger's sum.
func (p *Picker) Open() int { return int(p.open.Load()) }

// Close settles what is not settled yet, and waits for custom scorers that overran
// their deadline, as long as ctx allows; the error names those that did not return.
// Nothing may be picked any more.
func (p *Picker) Close(ctx context.Context) error {
	p.settle.close()
	return p.scorers.wait(ctx)
}

// Call is a request to pick for.
type Call struct {
	ID         string // request ID, already checked, see [RequestID]
	IDReplaced bool
	Path       string
	Request    *request.Request
	// Route is the model that the route puts in place of the request's, where no rule
	// names that; "" = none.
	Route string
	// Body is what Request was read from, for a tokeniser; nil = not to be asked. It
	// is not kept.
	Body []byte
	// Subset is the addresses that the gateway allows, host:port without spaces
	// around; nil = all, empty = none. An IP may be spelled in any way.
	Subset  []string
	Headers map[string][]string
	Client  string
	Arrival time.Time     // by the picker's clock
	Parsing time.Duration // wall time that reading the request took
	// RecordLater: the caller calls [Pick.Record] when the gateway has its answer,
	// so that recording and logging are out of the request's way.
	RecordLater bool

	// Gateway in front, that asks; nil for the embedded one.
	Gateway *record.Gateway
	// BodyWait is the wall time from the request's headers to the end of its body;
	// 0 when that was not told.
	BodyWait time.Duration
	// Fallbacks is how many endpoints are wanted behind the picked one, up to
	// [MaxFallbacks].
	Fallbacks int
}

// MaxFallbacks is how many endpoints there can be behind the picked one: a
// decision keeps only the first few pods in order.
const MaxFallbacks = score.OrderLength - 1

// Refusal is the error of a request that no pod gets.
type Refusal struct {
	Status int    // 404, 429 or 503
	Reason string // model-not-found, saturated, no-endpoints, not-leader
	Detail string // for the client: what is the case, per pod where that helps
}

func (r *Refusal) Error() string { return r.Detail }

// scratch is the memory of one decision, reused.
type scratch struct {
	picker  *Picker
	matches []pool.Match // memory for query.Matches
	pods    []score.PodState
	dec     score.Decision
	in      score.Inputs
	req     score.InferenceRequest
	entry   record.Entry
	query   pool.Query
	exact   request.Request // the call's, with the engines' ids
	subset  map[string]bool // memory for query.Subset
	rng     *rand.Rand
	picked  int
	extraOf uint64 // membership that in.Extra was computed for
}

func newScratch(random rand.Source) *scratch {
	if random != nil {
		return &scratch{rng: rand.New(random)}
	}
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails, see crypto/rand
	return &scratch{rng: rand.New(rand.NewChaCha8(seed))}
}

// Pick decides where the request goes and reserves the pod. The error is a
// *[Refusal] when none can take it.
func (p *Picker) Pick(ctx context.Context, c *Call) (*Pick, error) {
	watch := start(c.Parsing, c.BodyWait)
	if err := p.standby(); err != nil {
		return nil, err
	}
	model, err := p.resolve(c)
	if err != nil {
		return nil, err
	}
	s := p.scratch.Get().(*scratch)
	r := c.Request
	if p.cfg.Tokeniser != nil && c.Body != nil && r.TokensFrom == request.FromText {
		r = s.tokenise(ctx, p.cfg.Tokeniser, c, &model)
		watch.lap(&watch.Tokens)
	}
	s.prepare(p, c, r, &model)
	s.lookup(r, &model)
	watch.lap(&watch.Lookup)
	if len(p.cfg.Scorers) > 0 {
		s.runScorers(ctx)
		watch.lap(&watch.Scorers)
	}
	pick := &Pick{picker: p, id: c.ID, decisionID: s.entry.DecisionID, arrival: c.Arrival, model: model.Base, servedAs: model.Served}
	handedOut := false
	defer func() {
		if !handedOut { // refused, or a panic on the way: Release does nothing for what was not booked
			pick.reservation.Release()
		}
	}()
	var roster uint64
	s.pods, s.picked, roster = p.cfg.Pool.Choose(s.pods[:0], &s.query, s, &pick.reservation)
	watch.lap(&watch.Decide)
	s.entry.Roster, s.entry.Timings = roster, watch.Timings
	s.entry.Picked, s.entry.PredictedCached = s.picked, s.predicted(r, &pick.reservation)
	if s.picked < 0 {
		return nil, p.refuse(s, pick)
	}
	pick.fill(s)
	pick.countable(r)
	pick.scratch = s
	if !c.RecordLater {
		pick.Record()
	}
	p.open.Add(1)
	handedOut = true
	return pick, nil
}

// record appends the decision, tells the observer, and gives the scratch memory
// back.
func (p *Picker) record(s *scratch) record.Handle {
	s.entry.SubsetUnknown = s.unknownAddresses()
	handle := p.cfg.Recorder.Append(&s.entry)
	if p.cfg.Observer != nil {
		p.cfg.Observer.Picked(&s.entry)
	}
	s.forget()
	p.scratch.Put(s)
	return handle
}

// refuse records a decision in which no pod was picked.
func (p *Picker) refuse(s *scratch, pick *Pick) error {
	refusal := s.refusal()
	pick.handle = p.record(s)
	p.cfg.Recorder.Complete(pick.handle, &record.Outcome{
		Status: refusal.Status, Error: refusal.Reason, TTFT: -1, Duration: -1, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1,
	})
	return refusal
}

// prepare fills in what is known before the look-up. r is the call's request, or
// that with other ids.
func (s *scratch) prepare(p *Picker, c *Call, r *request.Request, model *named) {
	s.picker, s.picked, s.extraOf = p, -1, 0
	s.req = score.InferenceRequest{
		ID: c.ID, Model: model.Base, Adapter: model.Adapter, Tokens: r.Tokens, Count: r.TotalTokens,
		Arrival: c.Arrival, Client: c.Client, NoPrefix: r.NoPrefix, Headers: c.Headers,
	}
	s.in = score.Inputs{Request: &s.req, Weights: p.weights.Load().of(model.rewrite.Criticality), Seed: s.rng.Uint64() & score.MaxSeed}
	s.query = pool.Query{Base: model.Base, Pools: model.pools, Subset: s.allowed(c.Subset)}
	s.entry = record.Entry{
		DecisionID: s.uuid(), RequestID: c.ID, RequestIDReplaced: c.IDReplaced, TimeScale: p.cfg.Clock.Scale(),
		Policy: p.cfg.Policy.String(), Path: c.Path, Model: r.Model, ModelUnchecked: model.Unchecked, Rewrite: model.rewrite,
		Stream: r.Stream, Prompts: len(r.PromptTokens), PrefixTokens: len(r.Tokens),
		BlockSize: p.cfg.BlockSize, TokensFrom: r.TokensFrom,
		Inputs: &s.in, Decision: &s.dec, PredictedCached: -1,
		Gateway: c.Gateway, Subset: c.Subset, Fallbacks: min(max(c.Fallbacks, 0), MaxFallbacks),
	}
}

// allowed is a subset as the pool looks for it; nil for nil.
func (s *scratch) allowed(subset []string) map[string]bool {
	if subset == nil {
		return nil
	}
	if s.subset == nil {
		s.subset = make(map[string]bool, len(subset))
	}
	for _, address := range subset {
		s.subset[pool.CanonicalAddress(address)] = false
	}
	return s.subset
}

// unknownAddresses is how many of the subset's addresses no pod has.
func (s *scratch) unknownAddresses() (n int) {
	for _, found := range s.query.Subset {
		if !found {
			n++
		}
	}
	return n
}

// forget lets go of what is the request's: the scratch memory outlives it.
func (s *scratch) forget() {
	clear(s.subset)
	s.req, s.entry, s.in.Extra = score.InferenceRequest{}, record.Entry{}, nil
	s.query.Subset, s.query.Pools = nil, nil
	s.exact = request.Request{}
}

// uuid makes a UUID v4 (RFC 9562 §5.4).
func (s *scratch) uuid() (id [16]byte) {
	for i := range 8 {
		id[i] = byte(s.rng.Uint64() >> 8)
	}
	for i, v := 8, s.rng.Uint64(); i < 16; i, v = i+1, v>>8 {
		id[i] = byte(v)
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// lookup fingerprints the prompt and asks the tree who holds how much of it, once
// for each size of blocks that pods report in: nearly always one.
func (s *scratch) lookup(r *request.Request, model *named) {
	sizes := s.picker.cfg.Pool.BlockSizes()
	for len(s.matches) < len(sizes) {
		s.matches = append(s.matches, pool.Match{})
	}
	for i, size := range sizes {
		s.matches[i].BlockSize = size
		s.match(&s.matches[i], r, model)
	}
	s.query.Matches = s.matches[:len(sizes)]
	s.entry.Fingerprints = s.matches[0].Blocks
	s.req.Blocks = len(s.entry.Fingerprints)
}

func (s *scratch) match(m *pool.Match, r *request.Request, model *named) {
	m.Blocks = m.Blocks[:0]
	if r.NoPrefix == "" {
		tokens := r.Tokens[:min(len(r.Tokens), MaxBlocks*s.picker.cfg.BlockSize)]
		root := prefix.Root(model.Base, model.Adapter, r.SaltHash)
		m.Blocks = prefix.Fingerprints(m.Blocks, root, tokens, m.BlockSize)
	}
	n := s.picker.cfg.Tree.Slots()
	m.Counts = slices.Grow(m.Counts[:0], n)[:n]
	s.picker.cfg.Tree.Lookup(m.Blocks, m.Counts)
}

// Choose implements [pool.Chooser]: it is the decision, taken while nobody else
// can reserve.
func (s *scratch) Choose(pods []score.PodState, roster uint64) int {
	s.in.Pods = pods
	s.align(pods, roster)
	s.in.Decide(&s.dec)
	s.picked = s.dec.Winner
	if s.dec.Winner >= 0 && s.picker.cfg.Policy != PolicyScores {
		s.picked = s.picker.cfg.Policy.pick(s)
	}
	return s.picked
}

func (s *scratch) refusal() *Refusal {
	if s.dec.Refused == score.Saturated {
		busy := "all pods are busy: "
		if s.entry.Rewrite.Criticality == naming.Sheddable {
			busy = "all pods are busy, and the model gives way to others (Sheddable): "
		}
		return &Refusal{Status: 429, Reason: "saturated", Detail: busy + s.reasons()}
	}
	if len(s.in.Pods) == 0 {
		return &Refusal{Status: 503, Reason: "no-endpoints", Detail: "no endpoints: the pool is empty"}
	}
	return &Refusal{Status: 503, Reason: "no-endpoints", Detail: "no endpoint can take the request: " + s.reasons()}
}
