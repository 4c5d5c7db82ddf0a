package picker

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
)

// TestOffloadedBlocksCountLess follows what an engine says that moves blocks to its
// CPU, by way of the tree and the decision, to the record and its explanation.
func TestOffloadedBlocksCountLess(t *testing.T) {
	f := newFleet(t, 2, nil)
	f.scrape(0)
	tokens := prompt(20*blockSize, 1)
	weights := kvindex.TierWeights{kvevent.GPU: 1, kvevent.CPU: 0.5}
	slots, ok := f.pool.RankOpened(f.pool.Targets()[0].ID, 0, weights.Levels(), quietStream{})
	if !ok {
		t.Fatal("no slots")
	}
	defer f.pool.RankClosed(slots[0])
	engine := kvindex.New(kvindex.Config{Tree: f.tree, Slots: slots, Levels: weights.Levels(), Model: "m", BlockSize: blockSize})
	defer engine.Close()
	f.pool.RankChanged(slots[0], kvfeed.State{Connected: true, BlockSize: blockSize})

	hashes := make([]uint64, 18)
	for i := range hashes {
		hashes[i] = uint64(100 + i)
	}
	stored := kvevent.Event{Kind: kvevent.Stored, Hashes: hashes, Tokens: tokens[:18*blockSize], BlockSize: blockSize, LoRAID: -1}
	offloaded := kvevent.Event{Kind: kvevent.Stored, Hashes: hashes, Tier: kvevent.CPU, LoRAID: -1}
	evicted := kvevent.Event{Kind: kvevent.Removed, Hashes: hashes[12:], LoRAID: -1}
	dropped := kvevent.Event{Kind: kvevent.Removed, Hashes: hashes[15:], Tier: kvevent.CPU, LoRAID: -1}
	seq := uint64(0)
	for _, step := range []struct {
		name      string
		event     kvevent.Event
		value     float64
		tiers     []explain.TierBlocks
		predicted int
		detail    string
	}{
		{"on the GPU", stored, 18, nil, 288, "18 of 20 blocks (events"},
		{"copied to the CPU", offloaded, 18, nil, 288, "18 of 20 blocks (events"},
		{"evicted from the GPU", evicted, 15, []explain.TierBlocks{{Tier: "gpu", Blocks: 12, Weight: 1}, {Tier: "cpu", Blocks: 6, Weight: .5}}, 288, "15 of 20 blocks: 12 on GPU, 6 more on CPU × 0.5 (events"},
		{"and from the CPU", dropped, 13.5, []explain.TierBlocks{{Tier: "gpu", Blocks: 12, Weight: 1}, {Tier: "cpu", Blocks: 3, Weight: .5}}, 240, "13.5 of 20 blocks: 12 on GPU, 3 more on CPU × 0.5 (events"},
	} {
		engine.Apply(seq, &kvevent.Batch{At: time.Now(), Events: []kvevent.Event{step.event}})
		seq++
		k := f.mustPick(t, call(tokens))
		if k.Pod() != podName(0) || k.Predicted() != step.predicted {
			t.Errorf("%s: %s with %d tokens predicted, want %s with %d", step.name, k.Pod(), k.Predicted(), podName(0), step.predicted)
		}
		k.Done(end())
		rec, ok := f.newest()
		if !ok {
			t.Fatal("no record")
		}
		cache := rec.Candidates[0].Cache
		if *cache.Value != step.value || !cmp.Equal(cache.Tiers, step.tiers) {
			t.Errorf("%s: recorded %v of %v, want %v of %v", step.name, *cache.Value, cache.Tiers, step.value, step.tiers)
		}
		if v, _, _ := explain.Replay(rec); !v.Identical {
			t.Errorf("%s: replay: %s", step.name, v.Difference)
		}
		var text strings.Builder
		if err := explain.Explain(rec, explain.Options{}).Text(&text, explain.TextOptions{Width: 79}); err != nil {
			t.Fatal(err)
		}
		if flat := strings.Join(strings.Fields(text.String()), " "); !strings.Contains(flat, step.detail) {
			t.Errorf("%s: no %q in the explanation\n%s", step.name, step.detail, text.String())
		}
	}
}
