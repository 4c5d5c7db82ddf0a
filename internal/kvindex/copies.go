package kvindex

import "github.com/eppctl/eppctl/internal/kvevent"

// copies says how many copies of a block are where. From the top: 16 bits
// stamp, then three times 4 bits place and 12 bits count. A place with count 0
// is free. The stamp is the low part of the number of the batch that stored the
// block last.
type copies uint64

const (
	countBits = 12
	placeBits = 4
	fieldBits = placeBits + countBits
	fields    = 3
	stampBits = 16

	maxCopies = 1<<countBits - 1 // where counting stops
	maxPlaces = 1 << placeBits
	fieldMask = 1<<fieldBits - 1
	countMask = maxCopies

	stampShift = fields * fieldBits
	stampMask  = 1<<stampBits - 1
)

func (c copies) none() bool { return c<<stampBits == 0 }

func (c copies) stamp() uint16 { return uint16(c >> stampShift) }

func (c copies) stamped(batch uint32) copies {
	return c&^(stampMask<<stampShift) | copies(batch&stampMask)<<stampShift
}

// at returns the count in the k-th field and its place.
func (c copies) at(k int) (place, count int) {
	f := int(c >> (k * fieldBits) & fieldMask)
	return f >> countBits, f & countMask
}

// count is the number of copies in a place.
func (c copies) count(place int) int {
	for k := range fields {
		if p, n := c.at(k); n > 0 && p == place {
			return n
		}
	}
	return 0
}

// add counts one copy more. It is not ok when the block is in three other
// places already.
func (c copies) add(place int) (with copies, ok bool) {
	free := -1
	for k := range fields {
		switch p, n := c.at(k); {
		case n == 0:
			free = k
		case p == place && n == maxCopies:
			return c, true
		case p == place:
			return c + 1<<(k*fieldBits), true
		}
	}
	if free < 0 {
		return c, false
	}
	c &^= fieldMask << (free * fieldBits)
	return c | copies(place<<countBits|1)<<(free*fieldBits), true
}

// drop counts one copy less, of at least one.
func (c copies) drop(place int) copies {
	for k := range fields {
		switch p, n := c.at(k); {
		case n == 0 || p != place:
		case n == 1:
			return c &^ (fieldMask << (k * fieldBits))
		default:
			return c - 1<<(k*fieldBits)
		}
	}
	return c
}

// single counts every copy in a place as one.
func (c copies) single() copies {
	for k := range fields {
		if _, n := c.at(k); n > 1 {
			c = c&^(countMask<<(k*fieldBits)) | 1<<(k*fieldBits)
		}
	}
	return c
}

// in reports whether there is a copy in one of the places, a bit for each.
func (c copies) in(places uint16) bool {
	for k := range fields {
		if p, n := c.at(k); n > 0 && places>>p&1 != 0 {
			return true
		}
	}
	return false
}

// place is a tier and a group: where copies are counted together.
type place struct {
	tier   kvevent.Tier
	group  int
	level  int // the first that it is on; MaxLevels: it does not count as cached
	blocks int // that have a copy there
}

// places numbers the ones that a rank has blocks in.
type places struct {
	list [maxPlaces]place
	n    int
	on   [MaxLevels]uint16 // each level, a bit for each place
}

func (p *places) known() []place { return p.list[:p.n] }

// find returns the number of a place, or -1.
func (p *places) find(tier kvevent.Tier, group int) int {
	for i := range p.known() {
		if p.list[i].tier == tier && p.list[i].group == group {
			return i
		}
	}
	return -1
}

// add returns the number of a place that it makes if need be, or -1 when there
// are too many.
func (p *places) add(tier kvevent.Tier, group, level int) int {
	if i := p.find(tier, group); i >= 0 || p.n == maxPlaces {
		return i
	}
	i := p.n
	p.list[i] = place{tier: tier, group: group, level: level}
	p.n++
	for k := level; k < MaxLevels; k++ {
		p.on[k] |= 1 << i
	}
	return i
}

// hasGroup reports whether blocks of whole prefixes are known in the group.
func (p *places) hasGroup(group int) bool {
	for i := range p.known() {
		if p.list[i].group == group {
			return true
		}
	}
	return false
}

// groups are the KV cache groups that an engine named, below 64.
type groups struct {
	full, sparse uint64
	unnamed      bool // a sparse one without a usable number
}

func (g *groups) note(e *kvevent.Event) {
	sparse := e.Attention == kvevent.Sparse
	switch {
	case e.Group < 0 || e.Group >= 64:
		g.unnamed = g.unnamed || sparse
	case sparse:
		g.sparse |= 1 << e.Group
	default:
		g.full |= 1 << e.Group
	}
}

// isSparse reports whether all that is known of a group is that it is sparse.
func (g *groups) isSparse(group int) bool {
	return group >= 0 && group < 64 && g.sparse>>group&1 != 0 && g.full>>group&1 == 0
}

// hybrid reports whether the engine has several groups, or a sparse one.
func (g *groups) hybrid() bool {
	return g.unnamed || g.sparse != 0 || g.full&(g.full-1) != 0
}
