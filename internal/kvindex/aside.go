package kvindex

import (
	"container/list"
	"slices"

	"github.com/eppctl/eppctl/internal/kvevent"
)

// orphan is an event whose parent is not known.
type orphan struct {
	event kvevent.Event
	gone  []bool // its blocks that were removed meanwhile
	left  int    // that were not
	at    *list.Element
}

// spot is a block of an orphan.
type spot struct {
	*orphan
	index int
}

// aside keeps events until their parent comes, the newest ones when there are
// too many.
type aside struct {
	waiting map[uint64][]*orphan // by parent
	spots   map[uint64][]spot    // by the hash of a block
	queue   *list.List           // of *orphan, by age
	blocks  int                  // that are left of all
	bytes   int
}

// maxSpots bounds how often a hash is kept, and with it the search for one.
const maxSpots = 64

// cost is about what an orphan takes.
func cost(e *kvevent.Event) int {
	const own, block, token, media = 512, 128, 4, 16
	return own + block*len(e.Hashes) + token*len(e.Tokens) + media*len(e.Media)
}

func (a *aside) reset() { *a = aside{} }

// keep adds a copy of an event, and drops the oldest ones to stay within the
// limit. It returns how many blocks were dropped by that.
func (a *aside) keep(e *kvevent.Event, limit int) (dropped int) {
	if cost(e) > limit {
		return len(e.Hashes)
	}
	for a.bytes+cost(e) > limit {
		dropped += a.discard(a.queue.Front().Value.(*orphan))
	}
	if a.queue == nil {
		*a = aside{waiting: map[uint64][]*orphan{}, spots: map[uint64][]spot{}, queue: list.New()}
	}
	o := &orphan{event: cloned(e), gone: make([]bool, len(e.Hashes)), left: len(e.Hashes)}
	o.at = a.queue.PushBack(o)
	a.waiting[e.Parent] = append(a.waiting[e.Parent], o)
	for i, hash := range e.Hashes {
		if len(a.spots[hash]) == maxSpots {
			o.gone[i] = true
			o.left--
			dropped++
			continue
		}
		a.spots[hash] = append(a.spots[hash], spot{o, i})
	}
	a.blocks += o.left
	a.bytes += cost(e)
	if o.left == 0 {
		a.discard(o)
	}
	return dropped
}

// take moves the events that wait for a block to dst.
func (a *aside) take(dst []*orphan, parent uint64) []*orphan {
	for _, o := range a.waiting[parent] {
		dst = append(dst, o)
		a.forget(o)
	}
	delete(a.waiting, parent)
	return dst
}

// drop takes a block out of the last event that announced it in that place, and
// reports whether there was one.
func (a *aside) drop(hash uint64, tier kvevent.Tier, group int) bool {
	for _, s := range slices.Backward(a.spots[hash]) {
		if s.gone[s.index] || s.event.Tier != tier || s.event.Group != group {
			continue
		}
		s.gone[s.index] = true
		s.left--
		a.blocks--
		if s.left == 0 {
			a.discard(s.orphan)
		}
		return true
	}
	return false
}

// among reports which of an event's blocks are kept here for the same place, or
// nil for none.
func (a *aside) among(e *kvevent.Event) []bool {
	if a.blocks == 0 {
		return nil
	}
	found := make([]bool, len(e.Hashes))
	for i, hash := range e.Hashes {
		found[i] = slices.ContainsFunc(a.spots[hash], func(s spot) bool {
			return !s.gone[s.index] && s.event.Tier == e.Tier && s.event.Group == e.Group
		})
	}
	return found
}

// discard drops an event and returns how many blocks it had left.
func (a *aside) discard(o *orphan) int {
	parent := o.event.Parent
	rest := slices.DeleteFunc(a.waiting[parent], func(p *orphan) bool { return p == o })
	if len(rest) == 0 {
		delete(a.waiting, parent)
	} else {
		a.waiting[parent] = rest
	}
	a.forget(o)
	return o.left
}

// forget takes an event out of all but the list of its parent.
func (a *aside) forget(o *orphan) {
	a.queue.Remove(o.at)
	a.blocks -= o.left
	a.bytes -= cost(&o.event)
	for _, hash := range o.event.Hashes {
		rest := slices.DeleteFunc(a.spots[hash], func(s spot) bool { return s.orphan == o })
		if len(rest) == 0 {
			delete(a.spots, hash)
		} else {
			a.spots[hash] = rest
		}
	}
	if a.queue.Len() == 0 {
		a.reset() // maps keep their memory
	}
}

// cloned copies an event out of its decoder's memory.
func cloned(e *kvevent.Event) kvevent.Event {
	c := *e
	c.Hashes = slices.Clone(e.Hashes)
	c.Tokens = slices.Clone(e.Tokens)
	c.Media = slices.Clone(e.Media)
	return c
}
