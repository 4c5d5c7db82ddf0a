package picker

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/prefix"
)

// told is a stream of events that keeps what engines said.
type told struct {
	quietStream
	answers []kvindex.Answer
}

func (*told) Mark() kvindex.Mark         { return 7 }
func (s *told) Correct(a kvindex.Answer) { s.answers = append(s.answers, a) }

// TestEnginesAnswerCorrectsDoubtfulClaims: only those of a rank that has missed
// events, and only of the pod that served.
func TestEnginesAnswerCorrectsDoubtfulClaims(t *testing.T) {
	f := newFleet(t, 2, nil)
	f.scrape(0)
	tokens := prompt(64, 1)
	root := prefix.Root("m", "", "")
	blocks := prefix.Fingerprints(nil, root, tokens, blockSize)
	target, stream := f.pool.Targets()[0], new(told)
	slots, ok := f.pool.RankOpened(target.ID, 0, kvindex.GPUAlone(), stream)
	if !ok {
		t.Fatal("no slot")
	}
	slot := slots[0]
	defer f.pool.RankClosed(slot)
	f.tree.Store(slot, root, blocks)
	state := kvfeed.State{Connected: true, BlockSize: blockSize}
	serve := func(e End) {
		f.mustPick(t, call(tokens)).Done(e)
	}
	found := End{Status: 200, PromptTokens: 64, CachedTokens: 16, OutputTokens: 1}
	f.pool.RankChanged(slot, state)
	serve(found) // the stream is whole
	state.Degraded = kvindex.Gapped
	f.pool.RankChanged(slot, state)
	serve(end()) // the engine did not tell
	elsewhere := found
	elsewhere.ServedEndpoint = f.pool.Views()[1].State.Endpoint
	serve(elsewhere)
	if len(stream.answers) != 0 {
		t.Fatalf("corrected by %+v", stream.answers)
	}
	serve(found)
	want := []kvindex.Answer{{Blocks: blocks, Prompt: 64, Cached: 16, Picked: 7}}
	if diff := cmp.Diff(want, stream.answers); diff != "" {
		t.Errorf("what the engine said (−want +got):\n%s", diff)
	}
}
