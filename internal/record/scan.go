package record

import (
	"slices"

	"github.com/eppctl/eppctl/explain"
)

// stride is how many records are looked at while the lock is held once, and
// gather how many of them are copied: a reader delays an Append by some 10 µs.
const (
	stride = 64
	gather = 8
)

// cursor is a place in the ring. Going down, it is behind the record that is
// looked at next; going up, it is before it.
type cursor struct {
	slab uint64
	slot int
}

// found is a record that a walk came across, with a copy of its bytes.
type found struct {
	handle Handle
	view   view
}

// down looks at the next records, newest first, and returns copies of those that
// are wanted and how many it looked at; more is false at the end. The first call
// starts at the zero cursor.
func (r *Ring) down(c *cursor, want func(*head) bool) (out []found, looked int, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.slabs) == 0 {
		return nil, 0, false
	}
	if c.slab == 0 {
		newest := r.slabs[len(r.slabs)-1]
		*c = cursor{newest.number, newest.slots}
	}
	oldest := r.slabs[0].number
	for looked < stride && len(out) < gather {
		if c.slab < oldest {
			return out, looked, false
		}
		s := r.slabs[c.slab-oldest]
		if c.slot == 0 {
			if c.slab == oldest {
				return out, looked, false
			}
			c.slab--
			c.slot = r.slabs[c.slab-oldest].slots
			continue
		}
		c.slot--
		looked++
		out = r.look(s, c.slot, want, out)
	}
	return out, looked, true
}

// up is down in the other direction, without copies of what it finds: it returns
// handles, oldest first.
func (r *Ring) up(c *cursor, want func(*head) bool) (out []Handle, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range stride {
		if len(r.slabs) == 0 || c.slab >= r.next {
			return out, false
		}
		if oldest := r.slabs[0].number; c.slab < oldest {
			*c = cursor{oldest, 0}
		}
		s := r.slabs[c.slab-r.slabs[0].number]
		if c.slot >= s.slots {
			*c = cursor{c.slab + 1, 0}
			continue
		}
		if raw := s.record(c.slot); raw != nil {
			v := r.view(raw)
			if h := v.head(); want(&h) {
				out = append(out, Handle(s.number<<slotBits|uint64(c.slot)))
			}
		}
		c.slot++
	}
	return out, true
}

func (r *Ring) look(s *slab, slot int, want func(*head) bool, out []found) []found {
	raw := s.record(slot)
	if raw == nil {
		return out
	}
	v := r.view(raw)
	if h := v.head(); !want(&h) {
		return out
	}
	v.raw = slices.Clone(raw)
	return append(out, found{Handle(s.number<<slotBits | uint64(slot)), v})
}

// Walk visits the matching records of the ring, newest first, until visit
// returns false. An ID matches as a prefix, and Limit does not count. It returns
// how many records it looked at.
func (r *Ring) Walk(q Query, visit func(*explain.Record) bool) int {
	return r.walk(&q, visit)
}

func (r *Ring) walk(q *Query, visit func(*explain.Record) bool) int {
	looked := 0
	for c, more := (cursor{}), true; more; {
		var batch []found
		var n int
		batch, n, more = r.down(&c, func(h *head) bool { return q.match(h) != noMatch })
		looked += n
		for _, f := range batch {
			if !visit(f.view.record()) {
				return looked
			}
		}
	}
	return looked
}

// unsavedHandles lists records that stand in no file, oldest first: those with an
// outcome, and with pending also those without.
func (r *Ring) unsavedHandles(c *cursor, pending bool) ([]Handle, bool) {
	return r.up(c, func(h *head) bool { return !h.saved && (pending || h.state == stateDone) })
}

// unsavedRecord makes the record of a handle unless it stands in a file already;
// gone says that it has left the ring.
func (r *Ring) unsavedRecord(h Handle) (rec *explain.Record, gone bool) {
	r.mu.Lock()
	_, raw := r.find(h)
	if raw == nil || raw[offFlags]&flagSaved != 0 {
		r.mu.Unlock()
		return nil, raw == nil
	}
	v := r.view(slices.Clone(raw))
	r.mu.Unlock()
	return v.record(), false
}

// saved notes that a record stands in a file.
func (r *Ring) saved(h Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, raw := r.find(h); raw != nil && raw[offFlags]&flagSaved == 0 {
		raw[offFlags] |= flagSaved
		s.saved++
	}
}
