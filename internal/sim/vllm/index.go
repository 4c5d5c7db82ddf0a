package vllm

// An index finds blocks by their fingerprints, which are hashes already: open
// addressing, linear probing, and a removal closes the gap. A cell is the upper half
// of a fingerprint and 1 + the number of the block; 0 is empty. At least half of the
// cells are: it grows with what is in it.
type index struct {
	cells  []uint64
	shift  int // of a fingerprint, to its first cell
	length int
}

// newIndex has 1 << size cells to begin with.
func newIndex(size int) index {
	return index{cells: make([]uint64, 1<<size), shift: 64 - size}
}

const blockMask = 1<<32 - 1

// find is the cell of a fingerprint, and its block; none when it is not there, and
// the cell then the one where it would be put.
func (x *index) find(blocks []block, fingerprint uint64) (cell int, block int32) {
	for i := int(fingerprint >> x.shift); ; i++ {
		i &= len(x.cells) - 1
		c := x.cells[i]
		if c == 0 {
			return i, none
		}
		if (c^fingerprint)>>32 == 0 {
			if b := int32(c&blockMask) - 1; blocks[b].hash == fingerprint {
				return i, b
			}
		}
	}
}

// set puts a block into the cell that find returned. Cells are others afterwards.
func (x *index) set(cell int, fingerprint uint64, block int32) {
	if x.cells[cell] == 0 {
		x.length++
	}
	x.cells[cell] = fingerprint&^blockMask | uint64(block+1)
	if 2*x.length > len(x.cells) {
		x.grow()
	}
}

func (x *index) grow() {
	old := x.cells
	x.cells = make([]uint64, 2*len(old))
	x.shift--
	for _, c := range old {
		if c == 0 {
			continue
		}
		i := int(c >> x.shift)
		for x.cells[i] != 0 {
			i = (i + 1) & (len(x.cells) - 1)
		}
		x.cells[i] = c
	}
}

// remove empties a cell and moves up what is behind it.
func (x *index) remove(gap int) {
	mask := len(x.cells) - 1
	for i := (gap + 1) & mask; x.cells[i] != 0; i = (i + 1) & mask {
		// One that is at least as far from its first cell as from the gap may go there.
		if home := int(x.cells[i] >> x.shift); (i-home)&mask >= (i-gap)&mask {
			x.cells[gap] = x.cells[i]
			gap = i
		}
	}
	x.cells[gap] = 0
	x.length--
}
