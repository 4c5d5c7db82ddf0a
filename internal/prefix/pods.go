package prefix

import (
	"sync/atomic"
)

// MaxSlots bounds [Slot.Index]: a pod with a higher one is not indexed.
const MaxSlots = 1 << 16

// Slot is a pod's place. The pool gives it out; indices are small and dense,
// and are used again with a higher generation.
type Slot struct {
	Index      uint32 // below [MaxSlots]
	Generation uint32
}

// pod is what the tree knows of a slot. Fields that are not atomic are the
// writer's.
type pod struct {
	state  atomic.Uint64 // generation<<1 | admitted
	blocks atomic.Int64  // held in the current epoch
	spans  int           // of the current epoch
	stale  int           // of former epochs, not yet removed
	owner  owner         // slot and current epoch
}

// admitted reports whether the pod is open in that generation.
func (p *pod) admitted(generation uint32) bool {
	return p.state.Load() == uint64(generation)<<1|1
}

// podTable is replaced when it grows. epochs stands apart from the pods: it is
// all of them that a lookup reads.
type podTable struct {
	epochs []atomic.Uint32
	pods   []*pod
}

// pod returns the state of a slot in an admitted generation, or nil.
func (t *Tree) pod(s Slot) *pod {
	tb := t.pods.Load()
	if int64(s.Index) >= int64(len(tb.pods)) {
		return nil
	}
	if p := tb.pods[s.Index]; p.admitted(s.Generation) {
		return p
	}
	return nil
}

// current reports whether the span is one of its pod's current epoch.
func (t *Tree) current(w uint64) bool {
	return t.pods.Load().epochs[spanSlot(w)].Load() == spanEpoch(w)
}

// makePod returns the state of a slot, admitted or not, which it makes if need
// be.
func (t *Tree) makePod(index uint32) *pod {
	old := t.pods.Load()
	if int(index) < len(old.pods) {
		return old.pods[index]
	}
	size := min(MaxSlots, max(8, int(index)+1, len(old.pods)*3/2))
	grown := &podTable{epochs: make([]atomic.Uint32, size), pods: make([]*pod, size)}
	copy(grown.pods, old.pods)
	for i := range grown.pods {
		if i < len(old.pods) {
			grown.epochs[i].Store(old.epochs[i].Load())
			continue
		}
		grown.pods[i] = &pod{owner: makeOwner(uint32(i), 1)}
		grown.epochs[i].Store(1)
	}
	t.pods.Store(grown)
	return grown.pods[index]
}

// disown starts another epoch: from here on no span of the pod counts.
func (t *Tree) disown(p *pod) {
	slot := uint32(p.owner & slotMask)
	epoch := uint32(p.owner>>slotBits)%maxEpoch + 1
	t.pods.Load().epochs[slot].Store(epoch)
	p.owner = makeOwner(slot, epoch)
	p.stale += p.spans
	p.spans = 0
	p.blocks.Store(0)
}

// Admit opens the index for that generation of the slot. Whatever an older one
// held is gone when it returns, and its messages are dropped from then on. To
// admit the generation that is open already changes nothing; an older one than
// has been seen, or an index of [MaxSlots] or more, is ignored and counted.
func (t *Tree) Admit(s Slot) {
	if s.Index >= MaxSlots {
		t.staleMessages.Add(1)
		return
	}
	t.mu.Lock()
	p := t.makePod(s.Index)
	state := p.state.Load()
	known, seen := state != 0, uint32(state>>1)
	switch {
	case p.admitted(s.Generation):
		t.mu.Unlock()
		return
	case known && int32(s.Generation-seen) < 0:
		t.mu.Unlock()
		t.staleMessages.Add(1)
		return
	}
	if state&1 == 0 {
		t.admittedPods.Add(1)
	}
	t.disown(p)
	p.state.Store(uint64(s.Generation)<<1 | 1)
	t.setSlots()
	t.mu.Unlock()
	t.purge(p)
}

// Release closes the index for a pod that is gone and frees what was its own.
// Nothing happens when another generation is admitted.
func (t *Tree) Release(s Slot) {
	t.mu.Lock()
	p := t.pod(s)
	if p == nil {
		t.mu.Unlock()
		t.staleMessages.Add(1)
		return
	}
	t.disown(p)
	p.state.Store(uint64(s.Generation) << 1)
	t.admittedPods.Add(-1)
	t.setSlots()
	t.mu.Unlock()
	t.purge(p)
}

// Clear drops all blocks of a pod: when it returns no lookup that starts finds
// any. It is false when the generation is not the admitted one.
func (t *Tree) Clear(s Slot) bool {
	t.mu.Lock()
	p := t.pod(s)
	if p == nil {
		t.mu.Unlock()
		t.staleMessages.Add(1)
		return false
	}
	if p.spans > 0 {
		t.disown(p)
	}
	t.mu.Unlock()
	t.purge(p)
	return true
}

// setSlots updates what [Tree.Slots] returns.
func (t *Tree) setSlots() {
	pods := t.pods.Load().pods
	n := len(pods)
	for n > 0 && pods[n-1].state.Load()&1 == 0 {
		n--
	}
	t.slots.Store(int64(n))
}

// Slots is 1 + the highest admitted index: the length that the counts of
// [Tree.Lookup] need.
func (t *Tree) Slots() int { return int(t.slots.Load()) }

// PodBlocks is the number of blocks that a pod holds, 0 when the generation is
// not the admitted one.
func (t *Tree) PodBlocks(s Slot) int {
	if p := t.pod(s); p != nil {
		return int(p.blocks.Load())
	}
	return 0
}
