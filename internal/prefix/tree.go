package prefix

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Tree maps the blocks of all prefixes to the pods that hold them. All methods
// may be called at the same time; make one with [New].
type Tree struct {
	index index
	runs  runTable
	pods  atomic.Pointer[podTable]

	mu     sync.Mutex // the writer
	sweeps []*sweep   // under way

	blocks        atomic.Int64
	runCount      atomic.Int64
	runBytes      atomic.Int64
	admittedPods  atomic.Int64
	slots         atomic.Int64
	staleMessages atomic.Int64
	dropped       atomic.Int64
}

// New makes an empty tree.
func New() *Tree { return newTree(rand.Uint64(), shardBits) }

// newTree lets a test choose few shards, so that few blocks fill them.
func newTree(seed uint64, logShards uint) *Tree {
	t := &Tree{}
	t.index.init(seed, logShards)
	t.pods.Store(&podTable{})
	return t
}

// Stats are the tree's figures of the moment.
type Stats struct {
	Blocks        int // distinct blocks that at least one pod holds
	Runs          int // stretches that the blocks are stored in
	Pods          int // admitted slots
	BytesEstimate int64
	StaleMessages int64 // dropped: their generation was not the admitted one
	DroppedBlocks int64 // not stored: the tree had no place for another run
}

// Stats reads counters alone; it is cheap at any size.
func (t *Tree) Stats() Stats {
	return Stats{
		Blocks:        int(t.blocks.Load()),
		Runs:          int(t.runCount.Load()),
		Pods:          int(t.admittedPods.Load()),
		BytesEstimate: t.runBytes.Load() + t.index.bytes.Load() + 8*int64(len(t.index.shards)),
		StaleMessages: t.staleMessages.Load(),
		DroppedBlocks: t.dropped.Load(),
	}
}

// ref is a run with its id.
type ref struct {
	*run
	id uint32
}

// footprint is the memory of a run.
func (r *run) footprint() int64 { return runBytes + r.cellBytes() + r.more.Load().size() }

// addRun gives a new run its place.
func (t *Tree) addRun(r *run) (ref, bool) {
	id, ok := t.runs.put(r)
	if !ok {
		return ref{}, false
	}
	t.runCount.Add(1)
	t.runBytes.Add(r.footprint())
	return ref{r, id}, true
}

// freeRun takes a run out of the tree of which no cell is indexed any more.
func (t *Tree) freeRun(r ref) {
	pods := t.pods.Load().pods
	for k := range r.spanCells() {
		if w := r.spanCell(k).Load(); w != 0 && !t.current(w) {
			pods[spanSlot(w)].stale--
		}
	}
	t.runs.drop(r.id)
	t.runCount.Add(-1)
	t.runBytes.Add(-r.footprint())
}
