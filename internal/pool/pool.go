package pool

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
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
// together identify it: a pod that comes back under both keeps its requests.
type Member struct {
	Name        string // the pod's name
	Address     string // host:port
	URL         string // base URL of its HTTP server
	Labels      map[string]string
	Annotations map[string]string
	NotReady    bool
	Terminating bool
	// MaxRunning is how many requests the engine runs at once; 0 = not known.
	MaxRunning int

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
	departed  map[key]*endpoint // left the pool with requests running
	roster    uint64            // version of the membership

	catalogue  atomic.Pointer[catalogue]
	blockSizes atomic.Pointer[[]int]
}

// New makes an empty pool.
func New(cfg Config) *Pool {
	if cfg.Limits == (Limits{}) {
		cfg.Limits = DefaultLimits
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{cfg: cfg, origin: cfg.Clock.Now(), byKey: map[key]*endpoint{}, byID: map[string]*endpoint{}, departed: map[key]*endpoint{}}
	p.rearrange()
	return p
}

// endpoint is a member with its state; the pool's lock guards all of it.
type endpoint struct {
	member Member
	slot   prefix.Slot
	base   score.PodState // as decisions see it, but for ages and matches
	ages   ages

	inFlight, pending int
	reservations      list

	waiting                           reading // the newer of scrape and report
	reportedLoad                      reading // a report's gpuUtilization, ranks with DCGM
	runningLoad                       reading // running / the engine's maximum
	kvLoad                            reading
	probe                             reading
	reportHealth                      reading
	adapters                          adapterList
	models                            []string // base models it serves; nil = not known
	cache                             reading  // when the cache state was last confirmed; value unused
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
}

// slots gives out small numbers with a generation, so that a late message for
// an earlier holder of the number can be told.
type slots struct {
	free        []uint32
	generations []uint32
}

func (s *slots) take() prefix.Slot {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		s.generations[i]++
		return prefix.Slot{Index: i, Generation: s.generations[i]}
	}
	s.generations = append(s.generations, 1)
	return prefix.Slot{Index: uint32(len(s.generations) - 1), Generation: 1}
}

func (s *slots) give(slot prefix.Slot) { s.free = append(s.free, slot.Index) }

// Set makes the pool hold exactly these members. Endpoints that stay keep their
// state and requests; those that leave lose their blocks at once and are
// remembered until their last request has ended. Decisions go on meanwhile.
func (p *Pool) Set(members []Member) error {
	if err := check(members); err != nil {
		return err
	}
	p.membership.Lock()
	defer p.membership.Unlock()
	for _, slot := range p.removeAllBut(members) {
		p.cfg.Tree.Release(slot)
		p.slots.give(slot)
	}
	fresh := p.missing(members)
	addresses := make(map[key][]string, len(fresh))
	for k, slot := range fresh {
		p.cfg.Tree.Admit(slot)
		addresses[k] = addressesOf(k.address)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range members {
		p.admit(m, fresh[m.key()], addresses[m.key()])
	}
	p.arrange()
	return nil
}

// removeAllBut takes out the endpoints that are not among the members, and
// returns their slots. From then on no decision sees them.
func (p *Pool) removeAllBut(members []Member) (released []prefix.Slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	want := make(map[key]bool, len(members))
	for _, m := range members {
		want[m.key()] = true
	}
	for k, e := range p.byKey {
		if !want[k] {
			p.remove(e)
			released = append(released, e.slot)
		}
	}
	if released != nil {
		p.arrange()
	}
	return released
}

// missing gives slots to the members that the pool does not hold yet. The caller
// holds the membership, so that nobody else adds one.
func (p *Pool) missing(members []Member) map[key]prefix.Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	slots := map[key]prefix.Slot{}
	for _, m := range members {
		if p.byKey[m.key()] == nil {
			slots[m.key()] = p.slots.take()
		}
	}
	return slots
}

// arrange brings everything that follows from the membership up to date.
func (p *Pool) arrange() {
	p.endpoints = slices.SortedFunc(maps.Values(p.byKey), func(a, b *endpoint) int {
		return cmp.Or(cmp.Compare(a.member.Name, b.member.Name), cmp.Compare(a.member.Address, b.member.Address))
	})
	p.roster++
	p.rearrange()
}

// rearrange brings up to date what follows from what the members serve.
func (p *Pool) rearrange() {
	c := p.buildCatalogue()
	p.catalogue.Store(c)
	sizes := []int{p.cfg.BlockSize}
	for _, e := range p.endpoints {
		e.models = c.serves(e)
		if !slices.Contains(sizes, e.blockSize) {
			sizes = append(sizes, e.blockSize)
		}
	}
	p.blockSizes.Store(&sizes)
}

// BlockSizes are the block sizes that pods report in, the pool's own first. The
// slice must not be changed.
func (p *Pool) BlockSizes() []int { return *p.blockSizes.Load() }

func check(members []Member) error {
	if len(members) > MaxEndpoints {
		return fmt.Errorf("%d endpoints, at most %d are possible", len(members), MaxEndpoints)
	}
	seen := make(map[key]bool, len(members))
	for _, m := range members {
		if m.Name == "" || m.Address == "" {
			return fmt.Errorf("endpoint %q at %q: name and address must not be empty", m.Name, m.Address)
		}
		if seen[m.key()] {
			return fmt.Errorf("endpoint %q at %s is there twice", m.Name, m.Address)
		}
		seen[m.key()] = true
	}
	return nil
}

// admit adds a member in the given slot, or renews the description of one that
// is there.
func (p *Pool) admit(m Member, slot prefix.Slot, addresses []string) {
	m.inPool = true
	e := p.byKey[m.key()]
	if e == nil {
		if e = p.departed[m.key()]; e == nil {
			e = new(endpoint)
		}
		delete(p.departed, m.key())
		e.forget()
		e.slot, e.blockSize, e.addresses = slot, p.cfg.BlockSize, addresses
		e.id = fmt.Sprintf("%s@%s#%d.%d", m.Name, m.Address, slot.Index, slot.Generation)
		p.byKey[m.key()], p.byID[e.id] = e, e
	}
	e.member = m
	e.base = score.NewPod(m.Name, m.Address)
	e.base.Labels, e.base.Annotations = m.Labels, m.Annotations
	e.arrange(p.now(), p.cfg.Limits)
}

// forget drops everything that was learned of an endpoint but its requests: a
// pod that comes back may be another process.
func (e *endpoint) forget() {
	*e = endpoint{
		inFlight: e.inFlight, pending: e.pending, reservations: e.reservations,
		waiting: none, reportedLoad: none, runningLoad: none, kvLoad: none, probe: none, reportHealth: none,
		adapters: adapterList{reading: none}, reportedAdapters: adapterList{reading: none}, scrapedAdapters: adapterList{reading: none},
		cache: noneFor("unknown: no status report from this pod"), running: none,
		report: reportState{at: never}, engine: engineFacts{lastScrape: never},
	}
}

func (p *Pool) remove(e *endpoint) {
	delete(p.byKey, e.member.key())
	delete(p.byID, e.id)
	e.member.inPool = false
	if e.inFlight > 0 {
		p.departed[e.member.key()] = e
	}
}

// Chooser decides on one of the pods: it returns the index of the pod to
// reserve, or a negative number for none. It runs under the pool's lock. roster
// is the version of the pool's membership.
type Chooser interface {
	Choose(pods []score.PodState, roster uint64) int
}

// Query describes a request to [Pool.Choose].
type Query struct {
	Base   string   // base model; "" = any
	Subset []string // addresses that the gateway allows; nil = all
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
	p.lockSoon()
	defer p.mu.Unlock()
	pods = p.appendStates(dst, q)
	chosen = c.Choose(pods, p.roster)
	if chosen < 0 {
		return pods, -1, p.roster
	}
	e := p.endpoints[chosen]
	r.book(p, e, p.now())
	if m := q.match(e); m != nil && pods[chosen].Cache.State == score.Known {
		if n := int(m.Counts[e.slot.Index]); n > 0 && n <= len(m.Blocks) {
			r.last = m.Blocks[n-1]
		}
	}
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

func (p *Pool) appendStates(dst []score.PodState, q *Query) []score.PodState {
	now, first := p.now(), len(dst)
	dst = slices.Grow(dst, len(p.endpoints))[:first+len(p.endpoints)]
	for i, e := range p.endpoints {
		s := &dst[first+i]
		e.show(s, now, p.cfg.Limits)
		if m := q.match(e); m != nil {
			s.Cache.Value = float64(int(m.Counts[e.slot.Index]) * m.BlockSize / p.cfg.BlockSize)
		}
		if s.Excluded == score.Eligible {
			s.Excluded = e.outside(q)
		}
	}
	return dst
}

func (p *Pool) now() instant { return p.since(p.cfg.Clock.Now()) }

// match is the answer for blocks of the size that e reports in, or nil.
func (q *Query) match(e *endpoint) *Match {
	for i := range q.Matches {
		if m := &q.Matches[i]; m.BlockSize == e.blockSize && int(e.slot.Index) < len(m.Counts) {
			return m
		}
	}
	return nil
}

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
	switch {
	case q.Subset != nil && !slices.Contains(q.Subset, e.member.Address):
		return score.NotInSubset
	case q.Base != "" && e.models != nil && !slices.Contains(e.models, q.Base):
		return score.ModelNotServed
	}
	return score.Eligible
}
