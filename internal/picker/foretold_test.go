package picker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/prefix"
)

// foretelling is a pick of a pod that by its events holds 4 blocks of a prompt of
// 10.
type foretelling struct {
	*fleet
	*Pick
	slot   prefix.Slot
	state  kvfeed.State
	blocks []uint64
}

// predictedTokens are those of its 4 blocks.
const predictedTokens = 64

func foretell(t *testing.T) *foretelling {
	f := &foretelling{fleet: newFleet(t, 2, nil), state: kvfeed.State{Connected: true, BlockSize: blockSize}}
	f.scrape(0)
	tokens, root := prompt(10*blockSize, 1), prefix.Root("m", "", "")
	f.blocks = prefix.Fingerprints(nil, root, tokens, blockSize)
	slots, ok := f.pool.RankOpened(f.pool.Targets()[0].ID, 0, kvindex.GPUAlone(), quietStream{})
	if !ok {
		t.Fatal("no slot")
	}
	f.slot = slots[0]
	t.Cleanup(func() { f.pool.RankClosed(f.slot) })
	f.store(0, 4)
	f.pool.RankChanged(f.slot, f.state)
	time.Sleep(time.Second)
	f.Pick = f.mustPick(t, call(tokens))
	time.Sleep(time.Second)
	return f
}

func (f *foretelling) store(from, to int) {
	parent := prefix.Root("m", "", "")
	if from > 0 {
		parent = f.blocks[from-1]
	}
	f.tree.Store(f.slot, parent, f.blocks[from:to])
}

// evict removes the blocks from one on, as the pod did so long ago.
func (f *foretelling) evict(from int, ago time.Duration) {
	f.tree.Remove(f.slot, f.blocks[from:4])
	f.pool.RankEvicted(f.slot, f.blocks[from:4], time.Now().Add(-ago))
}

func (f *foretelling) degrade(d kvindex.Degraded) {
	f.state.Degraded = d
	f.pool.RankChanged(f.slot, f.state)
}

func TestPredictionIsClassed(t *testing.T) {
	nothing := func(*foretelling) {}
	const less, more = predictedTokens - 32, predictedTokens + 32
	for _, tt := range []struct {
		name          string
		found         int
		before, after func(f *foretelling) // the end
		want          string
		atOnce        bool
	}{
		{"as predicted", predictedTokens, nothing, nothing, explain.PredictionMet, true},
		{"as predicted in spite of an eviction", predictedTokens, func(f *foretelling) { f.evict(2, 0) }, nothing, explain.PredictionMet, true},
		{"not told", -1, nothing, nothing, explain.PredictionUnknown, true},
		{"served by another pod", less, func(f *foretelling) {
			f.ServedBy(f.pool.Views()[1].State.Endpoint)
		}, nothing, explain.PredictionOtherPod, true},

		{"stored by a request beside it", more, func(f *foretelling) { f.store(4, 6) }, nothing, explain.PredictionInFlight, true},
		{"the event comes after the answer", more, nothing, func(f *foretelling) { f.store(4, 6) }, explain.PredictionInFlight, false},
		{"part of the event comes", more, nothing, func(f *foretelling) { f.store(4, 5) }, explain.PredictionUnexplained, false},
		{"stored by a request beside it, and evicted again", more, func(f *foretelling) {
			f.store(4, 6)
			f.tree.Remove(f.slot, f.blocks[4:6])
			f.pool.RankEvicted(f.slot, f.blocks[4:6], time.Now())
		}, nothing, explain.PredictionInFlight, true},
		{"more for no reason", more, nothing, nothing, explain.PredictionUnexplained, false},
		{"more than a listener who came late knows of", more, func(f *foretelling) {
			f.degrade(kvindex.JoinedLate)
		}, nothing, explain.PredictionJoinedLate, true},
		{"more than a listener who missed events knows of", more, func(f *foretelling) {
			f.degrade(kvindex.Gapped)
		}, nothing, explain.PredictionAfterGap, true},

		{"evicted before the pick", less, func(f *foretelling) { f.evict(2, 1500*time.Millisecond) }, nothing, explain.PredictionUnseen, true},
		{"evicted after the pick", less, func(f *foretelling) { f.evict(2, 500*time.Millisecond) }, nothing, explain.PredictionRaced, true},
		{"… and told after the answer", less, nothing, func(f *foretelling) { f.evict(2, 500*time.Millisecond) }, explain.PredictionRaced, false},
		{"evicted after the first byte", less, func(f *foretelling) {
			f.FirstByte()
			time.Sleep(time.Second)
			f.evict(2, 0)
		}, nothing, explain.PredictionUnexplained, false},
		{"everything is gone", less, func(f *foretelling) { f.pool.RankEvicted(f.slot, nil, time.Now()) }, nothing, explain.PredictionRaced, true},
		{"less for no reason", less, nothing, nothing, explain.PredictionUnexplained, false},
		{"less than a listener who came late claims", less, func(f *foretelling) {
			f.degrade(kvindex.JoinedLate)
		}, nothing, explain.PredictionUnexplained, false},
		{"claimed in spite of a gap", less, func(f *foretelling) { f.degrade(kvindex.Gapped) }, nothing, explain.PredictionAfterGap, true},
		{"a gap that was cleared after the pick", less, func(f *foretelling) {
			f.state.Gaps++
			f.degrade(kvindex.JoinedLate)
		}, nothing, explain.PredictionAfterGap, true},
		{"a gap that was mended since", less, func(f *foretelling) {
			f.state.Gaps++
			f.degrade(kvindex.Whole)
		}, nothing, explain.PredictionAfterGap, true},
		{"the gap shows after the answer", less, nothing, func(f *foretelling) { f.degrade(kvindex.Gapped) }, explain.PredictionAfterGap, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := foretell(t)
				tt.before(f)
				f.Done(End{Status: 200, PromptTokens: 160, CachedTokens: tt.found, OutputTokens: 1})
				first := explain.PredictionUnexplained
				if tt.atOnce {
					first = tt.want
				}
				f.classed(t, "at the end", first)
				tt.after(f)
				time.Sleep(settleTime)
				synctest.Wait()
				f.classed(t, "soon after the end", tt.want)
				if n := f.settle.count.Load(); n != 0 {
					t.Errorf("%d are still waited for", n)
				}
				f.store(4, 6)
				f.evict(0, 2*time.Second)
				f.degrade(kvindex.Gapped)
				time.Sleep(time.Minute)
				f.classed(t, "long after the end", tt.want)
			})
		})
	}
}

func (f *foretelling) classed(t *testing.T, when, want string) {
	t.Helper()
	rec, ok := f.newest()
	if !ok || rec.Outcome.State != explain.OutcomeDone || rec.Outcome.Prediction != want {
		t.Errorf("%s the record says %q, want %q", when, rec.Outcome.Prediction, want)
	}
}

// What engines say of picks that are waited for changes nothing in the ledger, and
// only so many are.
func TestFewAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := foretell(t)
		f.Done(end())
		for range maxSettling + 1 {
			k := f.mustPick(t, call(prompt(10*blockSize, 1)))
			k.Done(End{Status: 200, PromptTokens: 160, CachedTokens: 0, OutputTokens: 1})
		}
		if n := f.settle.count.Load(); n != maxSettling {
			t.Errorf("%d are waited for, want %d", n, maxSettling)
		}
		if n := f.ledger(); len(n) != 0 || f.Open() != 0 {
			t.Errorf("ledger %v, %d open", n, f.Open())
		}
	})
}

// Looking for evidence of many picks, again and again, takes no memory.
func TestLookingForEvidenceAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := foretell(t)
		f.Done(End{Status: 200, PromptTokens: 160, CachedTokens: predictedTokens + 32, OutputTokens: 1})
		f.settle.mu.Lock()
		u := f.settle.fresh[0]
		f.settle.mu.Unlock()
		allocs := testing.AllocsPerRun(100, func() {
			if u.explained() {
				t.Error("something explains it")
			}
		})
		if allocs > 0 {
			t.Errorf("%v allocations a look, want none", allocs)
		}
	})
}
