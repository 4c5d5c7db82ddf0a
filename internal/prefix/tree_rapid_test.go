package prefix

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// family is a set of chains that share starts, made from few blocks so that
// histories meet themselves.
func family(rng func(n int) int, chains, longest int) [][]uint64 {
	all := [][]uint64{}
	next := uint64(1)
	for range chains {
		var chain []uint64
		if len(all) > 0 {
			parent := all[rng(len(all))]
			chain = append(chain, parent[:rng(len(parent)+1)]...)
		}
		for range rng(longest) + 1 {
			chain = append(chain, next*0x9e3779b97f4a7c15)
			next++
		}
		all = append(all, chain)
	}
	return all
}

// history applies random operations to a tree and the reference.
type history struct {
	rng    func(n int) int // 0 ≤ result < n
	tree   *Tree
	ref    *reference
	chains [][]uint64
	pods   int
}

func (h *history) slot() Slot {
	index := uint32(h.rng(h.pods))
	g := h.ref.generation[index]
	if h.rng(16) == 0 && g > 0 {
		g--
	}
	return Slot{index, g}
}

// stretch is a part of a chain, and the block before it.
func (h *history) stretch() (parent uint64, blocks []uint64) {
	chain := h.chains[h.rng(len(h.chains))]
	from := 0
	if h.rng(2) == 0 {
		from = h.rng(len(chain))
	}
	to := len(chain)
	if h.rng(2) == 0 {
		to = from + h.rng(len(chain)-from+1)
	}
	blocks = append(blocks, chain[from:to]...)
	parent = 7
	if from > 0 {
		parent = chain[from-1]
	}
	if n := len(blocks); n > 1 && h.rng(8) == 0 { // a report that lies
		blocks[h.rng(n)] = blocks[h.rng(n)]
		parent = blocks[h.rng(n)]
	}
	if h.rng(8) == 0 { // as engines evict: the last first
		slices.Reverse(blocks)
	}
	return parent, blocks
}

func (h *history) step(t rapid.TB) {
	s := h.slot()
	switch op := h.rng(20); {
	case op < 9:
		parent, blocks := h.stretch()
		if got, want := h.tree.Store(s, parent, blocks), h.ref.store(s, blocks); got != want {
			t.Fatalf("Store(%v, %x) = %v, want %v", s, blocks, got, want)
		}
	case op < 15:
		_, blocks := h.stretch()
		got, ok := h.tree.Remove(s, blocks)
		if want, wantOK := h.ref.remove(s, blocks); got != want || ok != wantOK {
			t.Fatalf("Remove(%v, %x) = %d, %v, want %d, %v", s, blocks, got, ok, want, wantOK)
		}
	case op < 17:
		bit := uint64(1) << h.rng(64)
		keep := func(fp uint64) bool { return fp&bit != 0 }
		got, ok := h.tree.Retain(s, keep)
		if want, wantOK := h.ref.retain(s, keep); got != want || ok != wantOK {
			t.Fatalf("Retain(%v) = %d, %v, want %d, %v", s, got, ok, want, wantOK)
		}
	case op == 17:
		if got, want := h.tree.Clear(s), h.ref.clear(s); got != want {
			t.Fatalf("Clear(%v) = %v, want %v", s, got, want)
		}
	case op == 18:
		h.tree.Release(s)
		h.ref.release(s)
	default:
		s.Generation = h.ref.generation[s.Index] + uint32(h.rng(3))
		h.tree.Admit(s)
		h.ref.admit(s)
	}
}

// queries are the chains, their ends alone, and one that is none.
func (h *history) queries() [][]uint64 {
	var all [][]uint64
	for range 4 {
		chain := h.chains[h.rng(len(h.chains))]
		_, odd := h.stretch()
		all = append(all, chain, chain[h.rng(len(chain)):], odd)
	}
	return all
}

func newHistory(rng func(int) int, longest int) *history {
	h := &history{rng: rng, tree: newTree(42, uint(rng(3))), ref: newReference(), pods: 1 + rng(6)}
	h.chains = family(rng, 1+rng(8), longest)
	for i := range h.pods {
		h.tree.Admit(Slot{uint32(i), 0})
		h.ref.admit(Slot{uint32(i), 0})
	}
	return h
}

func TestTreeAgreesWithReference(t *testing.T) {
	for name, longest := range map[string]int{
		"short chains": 40,
		"chains longer than a run and than a piece": 2500,
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				draw := rapid.Uint64()
				rng := func(n int) int { return int(draw.Draw(rt, "n") % uint64(n)) }
				h := newHistory(rng, longest)
				for range 1 + rng(2000/longest+10) {
					h.step(rt)
					mustAgree(rt, h.ref, h.tree, h.queries())
				}
			})
		})
	}
}

// FuzzTree reads a history from bytes.
func FuzzTree(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add([]byte("\x02\x05\x03\x20\x01\x10\x01\x10\x00\x00\x01\x01\x0a\x0a\x11\x12\x13"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rng := func(n int) int {
			if len(data) == 0 {
				return 0
			}
			v := int(data[0])
			data = data[1:]
			if n > 256 && len(data) > 0 {
				v |= int(data[0]) << 8
				data = data[1:]
			}
			return v % n
		}
		h := newHistory(rng, 60)
		for len(data) > 0 {
			h.step(t)
			mustAgree(t, h.ref, h.tree, h.queries())
		}
	})
}
