package pool

import (
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/score"
)

// MaxEndpoints is the largest pool.
const MaxEndpoints = 4096

// Member is an endpoint as its discovery describes it. Name and Address
// together identify it: a pod that comes back under both keeps its requests, also
// as another Instance.
type Member struct {
	Name        string // the pod's name
	Address     string // host:port
	URL         string // base URL of its HTTP server
	Labels      map[string]string
	Annotations map[string]string
	NotReady    bool
	Terminating bool
	// Drained keeps new requests from it as [Pool.Drain] does, from when it is set
	// until it is no longer.
	Drained bool
	// PrefillOnly: it computes prompts for other pods and gives no answers itself.
	PrefillOnly bool
	// MaxRunning is how many requests the engine runs at once; 0 = not known.
	MaxRunning int
	// Engine is "vllm", "sglang" or "trtllm"; "" = by its label, else by its page.
	Engine string
	// GPUURL is the page of the DCGM exporter that has its GPUs; "" = none.
	GPUURL string
	// Events is where its KV events are, and Replay where missed ones can be had, as
	// tcp://host:port; "" for Events = it is found out, [EventsOff] = not wanted.
	Events, Replay string
	// Pool is the InferencePool that it is in, as "namespace/name"; "" outside of a
	// cluster.
	Pool string
	// Instance tells processes apart that are behind one name and address, one after
	// the other. When it changes, all that was learned of the endpoint is forgotten.
	Instance string

	inPool bool
}

type key struct{ name, address string }

func (m *Member) key() key { return key{m.Name, m.Address} }

// Config is what a pool needs.
type Config struct {
	Clock  clock.Clock
	Tree   *prefix.Tree
	Limits Limits // zero = DefaultLimits
	// BlockSize is the number of tokens in a block of the tree.
	BlockSize int
	Logger    *slog.Logger
	// Models is the configured catalogue; empty = ask the engines.
	Models []ModelEntry
	// Assume makes what was sent to an endpoint count as cached there while nobody
	// tells what is. It is the tokens that a cache holds whose engine does not say; 0
	// = nothing is assumed.
	Assume int
}

// Pool is the set of endpoints. All methods are safe for concurrent use.
type Pool struct {
	cfg    Config
	origin time.Time // of every instant

	membership sync.Mutex // serializes Set; taken before mu
	slots      slots      // guarded by membership

	mu        sync.Mutex
	endpoints []*endpoint // sorted by name, address
	byKey     map[key]*endpoint
	byID      map[string]*endpoint
	byAddress map[string]*endpoint // by canonical address; of several the first
	departed  map[key]*endpoint    // left the pool with requests running
	ranks     map[prefix.Slot]*rank
	roster    uint64 // version of the membership
	lapsed    []*assumption

	exchange     exchange
	turn         atomic.Uint32 // of Serving
	feedsChanged chan struct{}

	catalogue  atomic.Pointer[catalogue]
	blockSizes atomic.Pointer[[]int]
}

// New makes an empty pool.
func New(cfg Config) *Pool {
	if cfg.Limits == (Limits{}) {
		cfg.Limits = DefaultLimits
	}
	if cfg.Limits.Events == 0 {
		cfg.Limits.Events = DefaultLimits.Events
	}
	if cfg.Limits.Allowance == 0 {
		cfg.Limits.Allowance = Allowance
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{
		cfg: cfg, origin: cfg.Clock.Now(), feedsChanged: make(chan struct{}, 1),
		byKey: map[key]*endpoint{}, byID: map[string]*endpoint{}, departed: map[key]*endpoint{}, ranks: map[prefix.Slot]*rank{},
	}
	p.rearrange()
	return p
}

// endpoint is a member with its state; the pool's lock guards all of it.
type endpoint struct {
	member Member
	slot   prefix.Slot    // of what it reports
	tally  tally          // where the cache's blocks are counted
	others []tally        // of further ranks
	base   score.PodState // as decisions see it, but for ages and matches
	ages   ages

	address string // of the member, in its canonical spelling

	inFlight, pending int
	reservations      list
	shared            shared

	waiting                           reading // the newer of scrape and report
	reportedLoad                      reading // a report's gpuUtilization, ranks with DCGM
	gpuLoad                           reading // of a DCGM exporter
	runningLoad                       reading // running / the engine's maximum
	kvLoad                            reading
	probe                             reading
	reportHealth                      reading
	vitals                            vitals
	adapters                          adapterList
	models                            []string    // base models it serves; nil = not known
	cache                             reading     // when the cache state was last confirmed; value unused
	reportedCache                     reading     // that of reports
	ranks                             []*rank     // streams of KV events, by number
	assumed                           *assumption // nil: nothing is
	report                            reportState
	reportedAdapters, scrapedAdapters adapterList
	listed                            []engine.Model
	id                                string   // of its current stay in the pool, see [Pool.Targets]
	addresses                         []string // that its reports may come from
	blockSize                         int      // of the blocks that it reports; at first the pool's
	running                           reading
	engine                            engineFacts
}

type adapterList struct {
	reading
	names []string
	max   int
}

// engineFacts are what a metrics page says of the engine itself.
type engineFacts struct {
	kind              string
	blockSize, blocks int
	scrapes, failures uint64
	lastError         string
	lastScrape        instant
	lastStart         instant // of the newest scrape that was taken
	ranks             []engine.Rank
	started, prompts  engine.Value // as they were last known
}

// Chooser decides on one of the pods: it returns the index of the pod to
// reserve, or a negative number for none. It runs under the pool's lock. roster
// is the version of the pool's membership.
type Chooser interface {
	Choose(pods []score.PodState, roster uint64) int
}

// Query describes a request to [Pool.Choose].
type Query struct {
	Base string // base model; "" = any
	// Pools may serve it, by [Member.Pool]; nil = all.
	Pools []string
	// Subset holds the addresses that a gateway allows, as [CanonicalAddress] spells
	// them; nil = all. A value becomes true when an endpoint has the address.
	Subset map[string]bool
	// Matches are the prefix tree's answers: the first for blocks of the pool's
	// size, one more for each other size that pods report in ([Pool.BlockSizes]).
	Matches []Match
}

// Match is what the prefix tree said of a prompt cut into blocks of one size.
type Match struct {
	BlockSize int
	Blocks    []uint64 // fingerprints
	Counts    []uint32 // matches by slot
}

// Choose shows c all endpoints as they are now, appended to dst, and reserves
// the chosen one in r, in one atomic step. It returns the pods and the version
// of the membership; r is booked when the returned index is not negative.
func (p *Pool) Choose(dst []score.PodState, q *Query, c Chooser, r *Reservation) (pods []score.PodState, chosen int, roster uint64) {
	pods, chosen, roster = p.choose(dst, q, c, r)
	if chosen >= 0 {
		p.remember(r)
	}
	if r.sent != nil {
		r.sent.blocks = slices.Clone(r.sent.blocks)
	}
	return pods, chosen, roster
}

func (p *Pool) choose(dst []score.PodState, q *Query, c Chooser, r *Reservation) (pods []score.PodState, chosen int, roster uint64) {
	p.lockSoon()
	defer p.mu.Unlock()
	pods = p.appendStates(dst, q)
	chosen = c.Choose(pods, p.roster)
	if chosen < 0 {
		return pods, -1, p.roster
	}
	e := p.endpoints[chosen]
	r.book(p, e, p.now())
	if pods[chosen].Cache.State == score.Known {
		var f found
		q.best(&f, e, p.cfg.BlockSize)
		r.counts(&f)
	}
	r.sent = e.send(q)
	return pods, chosen, p.roster
}

// lockSoon takes the lock as a decision does: it is held for some microseconds,
// less than it takes to be put to sleep and woken again, so it tries for a while
// before it waits. Without that, two decisions at once take turns on one
// processor.
func (p *Pool) lockSoon() {
	const tries = 100
	for range tries {
		if p.mu.TryLock() {
			return
		}
		runtime.Gosched()
	}
	p.mu.Lock()
}

// States is the view that [Pool.Choose] would show, without a reservation.
func (p *Pool) States(dst []score.PodState, q *Query) (pods []score.PodState, roster uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.appendStates(dst, q), p.roster
}

// Move gives a reservation that was never answered to another endpoint, if that
// is still there, well, and has fewer than maxQueue requests in its queue;
// maxQueue 0 means that the cutoff was relaxed. The first one is released in the
// same step.
func (p *Pool) Move(r *Reservation, name, address string, maxQueue int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byKey[key{name, address}]
	if e == nil || !r.open || e == r.endpoint {
		return false
	}
	now := p.now()
	s := e.state(now, p.cfg.Limits)
	depth, _ := s.QueueDepth()
	switch {
	case s.Excluded != score.Eligible,
		s.Health.State == score.Known && s.Health.Value < score.HealthCutoff,
		maxQueue > 0 && depth >= float64(maxQueue):
		return false
	}
	r.release()
	r.book(p, e, now)
	return true
}

// Reassign gives a reservation to the endpoint that a gateway says has served the
// request in place of the picked one. Nobody asks whether that may take it: it
// did. What was pending stays so. It returns the endpoint's name and address; moved
// is false when the reservation is there already, has ended, or no endpoint has
// the address.
func (p *Pool) Reassign(r *Reservation, to string) (name, address string, moved bool) {
	name, address, moved, there := p.reassign(r, CanonicalAddress(to))
	if r.sent != nil && !there {
		r.sent.takeBack(p.cfg.Tree, moved)
	}
	return name, address, moved
}

func (p *Pool) reassign(r *Reservation, to string) (name, address string, moved, there bool) {
	p.lockSoon()
	defer p.mu.Unlock()
	e := p.byAddress[to]
	if e == nil || !r.open || e == r.endpoint {
		return "", "", false, e != nil && e == r.endpoint
	}
	pending, unanswered := r.pending, r.unanswered
	r.release()
	r.book(p, e, p.now())
	if !pending {
		r.settle()
	}
	if !unanswered {
		r.answer()
	}
	return e.member.Name, e.member.Address, true, false
}

func (p *Pool) appendStates(dst []score.PodState, q *Query) []score.PodState {
	var f found
	now, first := p.now(), len(dst)
	dst = slices.Grow(dst, len(p.endpoints))[:first+len(p.endpoints)]
	for i, e := range p.endpoints {
		s := &dst[first+i]
		e.show(s, now, p.cfg.Limits)
		q.best(&f, e, p.cfg.BlockSize)
		s.Cache.Value, s.CacheTiers = f.blocks, f.tiers
		if reason := e.outside(q); s.Excluded == score.Eligible {
			s.Excluded = reason
		}
	}
	return dst
}

func (p *Pool) now() instant { return p.since(p.cfg.Clock.Now()) }

// since is a time in the pool's own count.
func (p *Pool) since(t time.Time) instant { return instant(t.Sub(p.origin)) }

// time is the inverse of since; the zero time for never.
func (p *Pool) time(i instant) time.Time {
	if i == never {
		return time.Time{}
	}
	return p.origin.Add(time.Duration(i))
}

// outside is why a request can't go to an endpoint that is ready.
func (e *endpoint) outside(q *Query) score.Reason {
	if q.Subset != nil {
		if _, inside := q.Subset[e.address]; !inside {
			return score.NotInSubset
		}
		q.Subset[e.address] = true
	}
	switch {
	case q.Pools != nil && !slices.Contains(q.Pools, e.member.Pool):
		return score.NotInPool
	case q.Base != "" && e.models != nil && !slices.Contains(e.models, q.Base):
		return score.ModelNotServed
	}
	return score.Eligible
}
