package picker

import (
	"fmt"
	"testing"

	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/prefix"
)

// TestPredictionGoesByTheEnginesBlocks: the engine computes at least the last token,
// and finds whole blocks of its own size, which need not be ours.
func TestPredictionGoesByTheEnginesBlocks(t *testing.T) {
	for _, tt := range []struct{ size, held, prompt, want int }{
		{16, 64, 64, 48},
		{16, 64, 65, 64},
		{16, 32, 64, 32},
		{16, 64, 1, 0},
		{32, 64, 64, 32},
		{32, 32, 32, 0},
		{32, 64, 80, 64},
		{32, 96, 96, 64},
		{8, 24, 32, 24},
		{8, 32, 32, 24},
		{64, 64, 64, 0},
		{16, 0, 64, 0},
	} {
		t.Run(fmt.Sprintf("%d tokens held in blocks of %d, of %d", tt.held, tt.size, tt.prompt), func(t *testing.T) {
			f := newFleet(t, 1, nil)
			f.scrape(0)
			tokens, root := prompt(max(tt.prompt, tt.held), 1), prefix.Root("m", "", "")
			slots, ok := f.pool.RankOpened(f.pool.Targets()[0].ID, 0, kvindex.GPUAlone(), quietStream{})
			if !ok {
				t.Fatal("no slot")
			}
			defer f.pool.RankClosed(slots[0])
			f.tree.Store(slots[0], root, prefix.Fingerprints(nil, root, tokens[:tt.held], tt.size))
			f.pool.RankChanged(slots[0], kvfeed.State{Connected: true, BlockSize: tt.size})
			k := f.mustPick(t, call(tokens[:tt.prompt]))
			defer k.Done(end())
			if got := k.Predicted(); got != tt.want {
				t.Errorf("predicted %d, want %d", got, tt.want)
			}
		})
	}
}
