package kvindex

import (
	"testing"
)

// case K1: a block whose parent nobody knows, until it comes.
func TestParentComesLater(t *testing.T) {
	f := newFixture(t, nil)
	c := chain{tokens: tokensFrom(1, 4*ours)}
	f.apply(0, c.stored(ours, 1, 2))
	f.apply(1, c.stored(ours, 2, 4))
	f.mustMatch(c, 0)
	if s := f.Stats(); s.UnknownParents != 2 || s.Orphans != 3 || s.Aside != 3 || s.Blocks != 0 {
		t.Errorf("Stats = %+v, want 2 unknown parents, 3 orphans and nothing held", s)
	}
	f.apply(2, c.removed(ours, 3, 4))
	f.apply(3, c.stored(ours, 0, 1))
	f.mustMatch(c, 3)
	if s := f.Stats(); s.Aside != 0 || s.Blocks != 3 || s.UnknownRemovals != 0 {
		t.Errorf("Stats = %+v, want 3 blocks, none aside", s)
	}
	f.apply(4, c.stored(ours, 3, 4))
	f.mustMatch(c, 4)
}

func TestOrphansAreBounded(t *testing.T) {
	const bytes = 64 << 10
	f := newFixture(t, func(cfg *Config) { cfg.Limits.OrphanBytes = bytes })
	const n = 1000
	for i := range uint32(n) {
		c := chain{tokens: tokensFrom(i*100, 2*ours)}
		f.apply(uint64(i), c.stored(ours, 1, 2))
	}
	s := f.Stats()
	if s.Aside == 0 || s.Aside+int(s.OrphansDropped) != n || f.aside.bytes > bytes || len(f.aside.spots) != s.Aside {
		t.Fatalf("%d aside, %d dropped, %d bytes", s.Aside, s.OrphansDropped, f.aside.bytes)
	}
	old, young := chain{tokens: tokensFrom(0, 2*ours)}, chain{tokens: tokensFrom((n-1)*100, 2*ours)}
	f.apply(n, old.stored(ours, 0, 1), young.stored(ours, 0, 1))
	f.mustMatch(old, 1)
	f.mustMatch(young, 2)
	f.apply(n+1, chain{tokens: tokensFrom(7, 1000*ours)}.stored(ours, 1, 1000))
	if got := f.Stats().Aside; got != s.Aside-1 {
		t.Errorf("%d aside after an event that is larger than the bound, want %d", got, s.Aside-1)
	}
}

// The search among the copies of an orphan is bounded too.
func TestCopiesOfOrphansAreBounded(t *testing.T) {
	f := newFixture(t, nil)
	c := chain{tokens: tokensFrom(1, 2*ours)}
	for seq := range uint64(maxSpots + 6) {
		f.apply(seq, c.stored(ours, 1, 2))
	}
	if s := f.Stats(); s.Aside != maxSpots || s.OrphansDropped != 6 {
		t.Errorf("Aside, OrphansDropped = %d, %d, want %d, 6", s.Aside, s.OrphansDropped, maxSpots)
	}
	f.apply(maxSpots+6, c.stored(ours, 0, 1))
	f.mustMatch(c, 2)
}
