package pool

import (
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/prefix"
)

// listened is a pool with one pod whose KV events are listened to, and its slots.
func listened(t *testing.T, levels []kvindex.Level) (*Pool, []prefix.Slot) {
	t.Helper()
	p, _ := newPool(t, "a")
	slots, ok := p.RankOpened(p.Targets()[0].ID, 0, levels, nil)
	if !ok {
		t.Fatal("no slots")
	}
	t.Cleanup(func() { p.RankClosed(slots[0]) })
	p.RankChanged(slots[0], kvfeed.State{Connected: true, BlockSize: blockSize})
	return p, slots
}

// A block that is removed after the look-up and before the reservation is not
// missed: nobody tells of it again.
func TestRemovedBetweenLookUpAndReservation(t *testing.T) {
	p, slots := listened(t, kvindex.GPUAlone())
	blocks, tree := prompt(1, 8), p.cfg.Tree
	tree.Store(slots[0], prefix.Root("m", "", ""), blocks)
	for _, removed := range []bool{false, true} {
		q := &Query{Matches: []Match{{BlockSize: blockSize, Blocks: blocks, Counts: make([]uint32, tree.Slots())}}}
		tree.Lookup(blocks, q.Matches[0].Counts)
		if removed {
			tree.Remove(slots[0], blocks[4:])
			p.RankEvicted(slots[0], blocks[4:], time.Now())
		}
		r := new(Reservation)
		p.Choose(nil, q, nth(0), r)
		want := Evidence{Evicted: removed, Unseen: removed, Stored: true}
		if ev := r.Evidence(4*blockSize, time.Now()); ev != want {
			t.Errorf("removed: %v: evidence %+v, want %+v", removed, ev, want)
		}
		if evicted := r.Release(); evicted != removed {
			t.Errorf("removed: %v: evicted %v", removed, evicted)
		}
		r.Forget()
		if ev := r.Evidence(4*blockSize, time.Now()); ev != (Evidence{}) {
			t.Errorf("forgotten: evidence %+v", ev)
		}
	}
}

// What the engine found may be on any level that counts.
func TestEvidenceIsOfAllLevels(t *testing.T) {
	p, slots := listened(t, (&kvindex.TierWeights{kvevent.GPU: 1, kvevent.CPU: .5}).Levels())
	blocks, tree, root := prompt(1, 8), p.cfg.Tree, prefix.Root("m", "", "")
	tree.Store(slots[0], root, blocks[:2])
	tree.Store(slots[1], root, blocks[:4])
	r := p.sends(blocks, 0)
	defer r.Release()
	if ev := r.Evidence(6*blockSize, time.Now()); ev != (Evidence{}) {
		t.Errorf("evidence %+v, want none", ev)
	}
	tree.Store(slots[1], blocks[3], blocks[4:6])
	if ev := r.Evidence(6*blockSize, time.Now()); ev != (Evidence{Stored: true}) {
		t.Errorf("evidence %+v, want that it was stored", ev)
	}
	p.RankEvicted(slots[0], blocks[3:4], time.Now())
	if ev := r.Evidence(3*blockSize, time.Now()); !ev.Evicted || ev.Unseen {
		t.Errorf("evidence %+v, want that it was evicted after the pick", ev)
	}
}

func TestNoEvidenceWhereThingsAreAssumed(t *testing.T) {
	p, _ := newAssuming(t, "a")
	blocks := prompt(1, 8)
	p.serves(blocks, 0, 0)
	r := p.sends(blocks, 0)
	defer r.Release()
	if ev := r.Evidence(4*blockSize, time.Now()); ev != (Evidence{Assumed: true}) {
		t.Errorf("evidence %+v, want that it was assumed", ev)
	}
}
