package kvfeed_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/score"
)

// offloaded says that blocks are on the CPU, as vLLM does: by their hashes alone.
func offloaded(mark, from, to int) kvevent.Event {
	e := kvevent.Event{Kind: kvevent.Stored, Tier: kvevent.CPU, LoRAID: -1, Group: 0}
	for i := from; i < to; i++ {
		e.Hashes = append(e.Hashes, hash(mark, i))
	}
	return e
}

func fromCPU(e kvevent.Event) kvevent.Event {
	e.Tier = kvevent.CPU
	return e
}

// TestTiersOfAStream has an engine move blocks to its CPU and lose them there. The
// pick that counted on them is told when they are gone from both.
func TestTiersOfAStream(t *testing.T) {
	weights := kvindex.TierWeights{kvevent.GPU: 1, kvevent.CPU: 0.5}
	p := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{Levels: weights.Levels()}, member("a", p))
	p.heard()
	prompt := tokens(1, 20*blockSize)
	p.send(stored(1, prompt, blockSize, 0, 18))
	r.untilMatched("a", root, prompt, 18)
	booked := r.pick("a", root, prompt)

	p.send(offloaded(1, 0, 18), removed(1, 12, 18))
	r.untilMatched("a", root, prompt, 15)
	states, _ := r.pool.States(nil, r.query(root, prompt))
	want := []score.TierBlocks{{Tier: "gpu", Blocks: 12, Weight: 1}, {Tier: "cpu", Blocks: 6, Weight: .5}}
	if at := slices.IndexFunc(states, func(s score.PodState) bool { return s.Pod == "a" }); !cmp.Equal(states[at].CacheTiers, want) {
		t.Errorf("parts %v, want %v", states[at].CacheTiers, want)
	}
	s := r.stream("a", 0)
	if s.Tiers[kvevent.GPU] != 12 || s.Tiers[kvevent.CPU] != 18 || s.TreeBlocks != 18 {
		t.Errorf("tiers %v and %d blocks in the tree, want 12 on the GPU, 18 on the CPU, 18", s.Tiers, s.TreeBlocks)
	}
	if booked.Release() {
		t.Error("evicted, but all is on the CPU")
	}

	booked = r.pick("a", root, prompt)
	p.at = r.clock.Now().Add(-time.Second)
	p.send(fromCPU(removed(1, 12, 18)))
	r.untilMatched("a", root, prompt, 12)
	r.stream("a", 0) // which waits for the whole batch
	if !booked.Release() {
		t.Error("not evicted, but the end of the match is gone from both tiers")
	}
}
