package pool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/score"
)

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

// takeAll takes n, or none when there are not so many: endpoints have places in
// any case.
func (s *slots) takeAll(n int) (taken []prefix.Slot, ok bool) {
	for range n {
		slot := s.take()
		taken = append(taken, slot)
		if slot.Index >= prefix.MaxSlots-2*MaxEndpoints {
			for _, slot := range taken {
				s.give(slot)
			}
			return nil, false
		}
	}
	return taken, true
}

func (s *slots) give(slot prefix.Slot) { s.free = append(s.free, slot.Index) }

// Set makes the pool hold exactly these members. Endpoints that stay keep their
// state and requests; those that leave, or are another instance now, lose their
// blocks at once, and their requests are remembered until the last one has ended.
// Decisions go on meanwhile.
func (p *Pool) Set(members []Member) error {
	if err := check(members); err != nil {
		return err
	}
	defer p.tidy()
	p.membership.Lock()
	defer p.membership.Unlock()
	p.release(p.removeAllBut(members))
	changed, fresh := p.compare(members)
	addresses := make(map[key][]string, len(fresh))
	for k, at := range fresh {
		p.cfg.Tree.Admit(at.told)
		if p.cfg.Assume > 0 {
			p.cfg.Tree.Admit(at.assumed)
		}
		addresses[k] = addressesOf(k.address)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roster++
	for _, m := range changed {
		p.admit(*m, fresh[m.key()], addresses[m.key()])
		p.changeFeeds()
	}
	if len(fresh) > 0 {
		p.arrange()
	}
	return nil
}

// removeAllBut takes out the endpoints that are not among the members, or not the
// same instance, and returns their slots. From then on no decision sees them.
func (p *Pool) removeAllBut(members []Member) (released []prefix.Slot) {
	leaving := p.others(members)
	if leaving == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range leaving {
		p.remove(e)
		released = append(released, e.slot)
		if e.assumed != nil {
			released = append(released, e.assumed.slot)
		}
		for _, r := range e.ranks {
			delete(p.ranks, r.slots[0])
			released = append(released, r.slots...)
		}
		e.ranks = nil
	}
	p.arrange()
	return released
}

// others are the endpoints that are not among the members, or not the same instance.
// The caller holds the membership, without which nobody changes who is in the pool,
// nor how it is described: decisions need not wait.
func (p *Pool) others(members []Member) (others []*endpoint) {
	want := make(map[key]string, len(members))
	for _, m := range members {
		want[m.key()] = m.Instance
	}
	for k, e := range p.byKey {
		if instance, stays := want[k]; !stays || instance != e.member.Instance {
			others = append(others, e)
		}
	}
	return others
}

// places are the slots of an endpoint: of what it tells in reports, and of what is
// assumed, if anything is.
type places struct{ told, assumed prefix.Slot }

// compare finds the members that are new, or described in another way than before, and
// gives slots to the new ones. The caller holds the membership, as for
// [Pool.others].
func (p *Pool) compare(members []Member) (changed []*Member, fresh map[key]places) {
	fresh = map[key]places{}
	for i := range members {
		m := &members[i]
		e := p.byKey[m.key()]
		if e != nil && m.same(&e.member) {
			continue
		}
		changed = append(changed, m)
		if e != nil {
			continue
		}
		at := places{told: p.slots.take()}
		if p.cfg.Assume > 0 {
			at.assumed = p.slots.take()
		}
		fresh[m.key()] = at
	}
	return changed, fresh
}

// arrange brings everything that follows from the membership up to date.
func (p *Pool) arrange() {
	p.endpoints = slices.SortedFunc(maps.Values(p.byKey), func(a, b *endpoint) int {
		return cmp.Or(cmp.Compare(a.member.Name, b.member.Name), cmp.Compare(a.member.Address, b.member.Address))
	})
	p.byAddress = make(map[string]*endpoint, len(p.endpoints))
	for _, e := range slices.Backward(p.endpoints) {
		p.byAddress[e.address] = e
	}
	p.roster++
	p.rearrange()
}

// rearrange brings up to date what follows from what the members serve.
func (p *Pool) rearrange() {
	c := p.buildCatalogue()
	sizes := []int{p.cfg.BlockSize}
	for _, e := range p.endpoints {
		e.models = c.serves(e)
		c.note(e)
		e.vitals.model = c.loaded(e, p.cfg.Models)
		if !slices.Contains(sizes, e.blockSize) {
			sizes = append(sizes, e.blockSize)
		}
		for _, r := range e.ranks {
			if !slices.Contains(sizes, r.size) {
				sizes = append(sizes, r.size)
			}
		}
		if a := e.assumed; a != nil && a.size > 0 && !slices.Contains(sizes, a.size) {
			sizes = append(sizes, a.size)
		}
	}
	p.catalogue.Store(c)
	p.blockSizes.Store(&sizes)
	p.changeFeeds()
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

// admit adds a member in the given places, or renews the description of one that
// is there.
func (p *Pool) admit(m Member, at places, addresses []string) {
	m.inPool = true
	e := p.byKey[m.key()]
	if e == nil {
		if e = p.departed[m.key()]; e == nil {
			e = new(endpoint)
		}
		delete(p.departed, m.key())
		e.forget()
		e.slot, e.blockSize, e.addresses = at.told, p.cfg.BlockSize, addresses
		e.assumed = p.newAssumption(at.assumed)
		e.address = CanonicalAddress(m.Address)
		e.id = fmt.Sprintf("%s@%s#%d.%d", m.Name, m.Address, at.told.Index, at.told.Generation)
		p.byKey[m.key()], p.byID[e.id] = e, e
	}
	if m.NotReady && !e.member.NotReady {
		p.lapse(e)
	}
	if m.Drained != e.member.Drained {
		e.drain(m.Drained, p.now())
	}
	e.member = m
	e.base = score.NewPod(m.Name, m.Address)
	e.base.Labels, e.base.Annotations = m.Labels, m.Annotations
	e.arrange(p.now(), p.cfg.Limits)
}

// same reports whether nothing about a member has changed.
func (m *Member) same(o *Member) bool {
	return m.key() == o.key() && m.URL == o.URL && m.NotReady == o.NotReady && m.Terminating == o.Terminating && m.Drained == o.Drained &&
		m.PrefillOnly == o.PrefillOnly && m.MaxRunning == o.MaxRunning && m.Engine == o.Engine && m.GPUURL == o.GPUURL && m.Events == o.Events &&
		m.Replay == o.Replay && m.Pool == o.Pool && m.Instance == o.Instance && maps.Equal(m.Labels, o.Labels) && maps.Equal(m.Annotations, o.Annotations)
}

// forget drops everything that was learned of an endpoint but its requests: a
// pod that comes back may be another process.
func (e *endpoint) forget() {
	*e = endpoint{
		inFlight: e.inFlight, pending: e.pending, reservations: e.reservations, shared: e.shared,
		waiting: none, reportedLoad: none, gpuLoad: none, runningLoad: none, kvLoad: none, probe: none, reportHealth: none,
		adapters: adapterList{reading: none}, reportedAdapters: adapterList{reading: none}, scrapedAdapters: adapterList{reading: none},
		cache: none, reportedCache: noneFor("unknown: no status report from this pod"), running: none,
		vitals: unfelt(),
		report: reportState{at: never}, engine: engineFacts{lastScrape: never, lastStart: never},
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
