package pool

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/score"
)

// What [Member.Events] may be beside an address.
const (
	EventsOff    = "off"    // nobody listens to its KV events
	EventsListen = "listen" // its engine connects to the picker
)

// rank is one stream of KV events of an endpoint; the pool's lock guards it.
type rank struct {
	endpoint *endpoint
	slots    []prefix.Slot // one for each of its levels
	levels   []kvindex.Level
	number   int
	stream   kvfeed.Stream // not to be asked under the pool's lock
	state    kvfeed.State
	heard    instant // it was last known to be connected; never, or always while it is
	size     int     // of the engine's blocks, as it last was
}

// FeedsChanged has a value when [Pool.Feeds] may have changed.
func (p *Pool) FeedsChanged() <-chan struct{} { return p.feedsChanged }

// changeFeeds notes that [Pool.Feeds] may have changed.
func (p *Pool) changeFeeds() {
	select {
	case p.feedsChanged <- struct{}{}:
	default:
	}
}

// Feeds lists the members whose KV events are wanted: those of which it is known
// which base model they serve. Of several it is the first; the blocks of all are
// one cache's.
func (p *Pool) Feeds() []kvfeed.Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	var targets []kvfeed.Target
	for _, e := range p.endpoints {
		m := &e.member
		if m.Events == EventsOff || len(e.models) == 0 {
			continue
		}
		t := kvfeed.Target{
			ID: e.id, Name: m.Name, BaseURL: m.URL, Model: e.models[0], Events: m.Events, Replay: m.Replay,
			Engine: m.engine(), Ranks: len(e.engine.ranks),
		}
		if m.Events == EventsListen {
			t.Events, t.Inbound = "", true
		}
		if t.Engine == "" {
			t.Engine = e.engine.kind
		}
		targets = append(targets, t)
	}
	return targets
}

// RankOpened implements [kvfeed.Sink].
func (p *Pool) RankOpened(targetID string, number int, levels []kvindex.Level, stream kvfeed.Stream) ([]prefix.Slot, bool) {
	p.membership.Lock()
	defer p.membership.Unlock()
	slots, ok := p.slots.takeAll(len(levels))
	if !ok {
		return nil, false
	}
	for _, slot := range slots {
		p.cfg.Tree.Admit(slot)
	}
	if !p.addRank(targetID, &rank{slots: slots, levels: levels, number: number, stream: stream, heard: never}) {
		p.release(slots)
		return nil, false
	}
	return slots, true
}

// release gives back slots that nobody looks at any more.
func (p *Pool) release(slots []prefix.Slot) {
	for _, slot := range slots {
		p.cfg.Tree.Release(slot)
		p.slots.give(slot)
	}
}

func (p *Pool) addRank(targetID string, r *rank) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byID[targetID]
	if e == nil {
		return false
	}
	r.endpoint, r.size = e, p.cfg.BlockSize
	e.ranks = append(e.ranks, r)
	slices.SortFunc(e.ranks, func(a, b *rank) int { return a.number - b.number })
	p.ranks[r.slots[0]] = r
	return true
}

// RankClosed implements [kvfeed.Sink].
func (p *Pool) RankClosed(slot prefix.Slot) {
	p.membership.Lock()
	defer p.membership.Unlock()
	p.release(p.dropRank(slot))
}

// dropRank returns the slots of the rank that it takes out.
func (p *Pool) dropRank(slot prefix.Slot) []prefix.Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ranks[slot]
	if r == nil {
		return nil // it went with its endpoint
	}
	e := r.endpoint
	delete(p.ranks, slot)
	e.ranks = slices.DeleteFunc(e.ranks, func(o *rank) bool { return o == r })
	e.arrange(p.now(), p.cfg.Limits)
	p.rearrange()
	return r.slots
}

// RankChanged implements [kvfeed.Sink].
func (p *Pool) RankChanged(slot prefix.Slot, s kvfeed.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ranks[slot]
	if r == nil {
		return
	}
	e, now := r.endpoint, p.now()
	if s.Mismatch != 0 && s.Mismatch != r.state.Mismatch {
		p.cfg.Logger.Warn("block size mismatch: the pod's cache can't be compared",
			logkey.Pod, e.member.Name, logkey.Rank, r.number, logkey.BlockSize, s.Mismatch, logkey.Want, p.cfg.BlockSize)
	}
	if s.Connected {
		r.heard = always
	} else if r.state.Connected {
		r.heard = now
	}
	r.state = s
	if s.BlockSize != 0 && s.BlockSize != r.size {
		r.size = s.BlockSize
		p.rearrange()
	}
	e.arrange(now, p.cfg.Limits)
}

// RankEvicted implements [kvfeed.Sink]: some picks counted on blocks that are gone.
func (p *Pool) RankEvicted(slot prefix.Slot, blocks []uint64, at time.Time) {
	gone := among(blocks)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.ranks[slot]
	if r == nil {
		return
	}
	since := p.since(at)
	for q := r.endpoint.reservations.first; q != nil; q = q.next {
		switch {
		case q.at.slot != slot.Index:
		case blocks != nil:
			q.removed(gone, since)
		case q.last != 0 && q.gone == never:
			q.gone = since
		}
	}
}

// among is a test for blocks that are in a list, quick for those that are not.
func among(blocks []uint64) func(uint64) bool {
	var filter [64]uint64
	for _, b := range blocks {
		filter[b>>6%64] |= 1 << (b % 64)
	}
	return func(b uint64) bool { return filter[b>>6%64]>>(b%64)&1 != 0 && slices.Contains(blocks, b) }
}

// doubtful is the claim of a rank that has missed events, nil when the match is
// not such a one's. Of several ranks nobody tells which one served.
func (e *endpoint) doubtful(slot uint32) *claim {
	if len(e.ranks) != 1 || e.ranks[0].slots[0].Index != slot || e.ranks[0].state.Degraded != kvindex.Gapped {
		return nil
	}
	return &claim{stream: e.ranks[0].stream}
}

// fed reports whether events tell what the endpoint holds.
func (e *endpoint) fed() bool {
	return slices.ContainsFunc(e.ranks, func(r *rank) bool { return r.state.Connected })
}

// expires is the last moment at which the rank's picture is fresh.
func (r *rank) expires(l Limits) instant {
	return reading{at: r.heard, source: score.SourceEvents}.expires(l)
}

// tally is a slot of the tree in which an endpoint's matches count, by its index,
// and the size of the blocks there; 0: none. A rank with several levels has further
// slots, whose blocks count less.
type tally struct {
	slot uint32
	size int
	rank *rank // nil: there is one level
}

// arrangeCache chooses between events and reports, whichever is newer: events are
// of now as long as their connection stands.
func (e *endpoint) arrangeCache(now instant, l Limits) {
	if len(e.ranks) > 0 {
		e.cache = e.events(now, l)
		if e.fed() || e.cache.known() && e.cache.at >= e.reportedCache.at {
			return
		}
	}
	e.cache, e.tally, e.others = e.reportedCache, tally{slot: e.slot.Index, size: e.blockSize}, e.others[:0]
}

// events is the reading of what the endpoint's streams tell. The ranks that count
// are those that are fresh, or all when none is.
func (e *endpoint) events(now instant, l Limits) reading {
	e.tally, e.others = tally{}, e.others[:0]
	best, mismatch := none, 0
	for _, r := range e.ranks {
		switch {
		case r.heard == never:
		case r.state.Mismatch != 0:
			mismatch = r.state.Mismatch
		case r.heard > best.at:
			best = reading{at: r.heard, source: score.SourceEvents}
		}
	}
	if !best.known() {
		if mismatch != 0 {
			return noneFor(fmt.Sprintf("unknown: block size %d", mismatch))
		}
		return none
	}
	stale := now > best.expires(l)
	var counted []*rank
	for _, r := range e.ranks {
		if r.heard != never && r.state.Mismatch == 0 && (stale || now <= r.expires(l)) {
			counted = append(counted, r)
			e.count(r)
		}
	}
	best.note = eventsNote(counted, len(e.ranks))
	return best
}

// count makes a rank one of those that count.
func (e *endpoint) count(r *rank) {
	t := tally{slot: r.slots[0].Index, size: r.size}
	if len(r.levels) > 1 {
		t.rank = r
	}
	if e.tally.size == 0 {
		e.tally = t
		return
	}
	e.others = append(e.others, t)
}

// eventsNote says what is to be known of the picture of some ranks of all; "" when
// it is whole.
func eventsNote(counted []*rank, all int) string {
	var notes []string
	some := func(is func(s *kvfeed.State) bool) bool {
		return slices.ContainsFunc(counted, func(r *rank) bool { return is(&r.state) })
	}
	switch {
	case some(func(s *kvfeed.State) bool { return s.Degraded == kvindex.Gapped }):
		notes = append(notes, "degraded: gap")
	case some(func(s *kvfeed.State) bool { return s.Degraded == kvindex.JoinedLate }):
		notes = append(notes, "joined late")
	}
	if some(func(s *kvfeed.State) bool { return s.Unconfirmed }) {
		notes = append(notes, "nothing heard since the connection was lost")
	}
	if some(func(s *kvfeed.State) bool { return s.Hybrid }) {
		notes = append(notes, "upper bound: hybrid attention")
	}
	if len(counted) < all {
		notes = append(notes, fmt.Sprintf("%d of %d ranks", len(counted), all))
	}
	return strings.Join(notes, "; ")
}
