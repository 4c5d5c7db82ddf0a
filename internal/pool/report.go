package pool

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/score"
)

// ErrNotMember: a report came from a pod that is not in the pool, or from an
// address that is not the pod's.
var ErrNotMember = errors.New("no such pod in the pool at this address")

// reportState is how far an endpoint's reports have come.
type reportState struct {
	applying *sync.Mutex // one report of an endpoint at a time
	epoch    uint64
	seq      uint64
	at       instant  // of the last one
	seen     uint64   // highest sequence number of the epoch, applied or not
	retired  []uint64 // epochs before this one
	count    uint64
	gaps     uint64 // reports that were missed
	resyncs  uint64 // full reports that were asked for
	mismatch int    // block size that can't be compared with ours, 0 = none
	skipped  bool   // what the last ones said of the cache: events told it
}

// maxRetired bounds how many earlier epochs of an endpoint are remembered.
const maxRetired = 16

// Report applies a status report that came from the given IP address. It
// reports whether the sender has to send everything anew.
func (p *Pool) Report(r *report.Report, from string) (resync bool, err error) {
	e, slot, applying, err := p.reporter(r.Pod, canonical(from))
	if err != nil {
		return false, err
	}
	applying.Lock()
	defer applying.Unlock()
	place := p.place(e, slot, r)
	switch place {
	case late:
		return false, nil
	case broken:
		return true, nil
	case next, beside:
	}
	var gone func(fp uint64) bool
	if place == next && p.comparable(r.BlockSize) {
		gone = p.apply(slot, r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.slot != slot || !e.member.inPool {
		return false, ErrNotMember
	}
	p.learn(e, r, place == next, gone)
	return false, nil
}

// reporter finds the endpoint of a report, and the lock under which its reports
// are applied. The address must be the endpoint's.
func (p *Pool) reporter(pod, from string) (*endpoint, prefix.Slot, *sync.Mutex, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		if e.member.Name != pod {
			continue
		}
		if !slices.Contains(e.addresses, from) {
			continue
		}
		if e.report.applying == nil {
			e.report.applying = new(sync.Mutex)
		}
		return e, e.slot, e.report.applying, nil
	}
	return nil, prefix.Slot{}, nil, ErrNotMember
}

// order is where a report stands among those of its pod.
type order uint8

const (
	next   order = iota // it continues what is known
	broken              // something is missing before it
	late                // it was overtaken by a newer one: nothing to apply, nothing missing
	beside              // events tell better what the pod's cache holds: only the rest of it counts
)

// place finds a report's place. The first sign of another epoch clears the pod:
// it was restarted, and holds nothing of before.
func (p *Pool) place(e *endpoint, slot prefix.Slot, r *report.Report) order {
	p.mu.Lock()
	s := &e.report
	if slices.Contains(s.retired, r.Epoch) || s.epoch == r.Epoch && r.Seq <= s.seq {
		p.mu.Unlock()
		return late
	}
	restarted := s.epoch != 0 && s.epoch != r.Epoch
	if restarted {
		s.retire(r.Epoch)
		e.reportedCache = noneFor("unknown: the pod was restarted and has not reported in full")
		e.arrange(p.now(), p.cfg.Limits)
	}
	place := s.follow(r, e.fed())
	s.seen = max(s.seen, r.Seq)
	p.mu.Unlock()
	if restarted {
		p.cfg.Tree.Clear(slot)
	}
	return place
}

// follow is the place of a report that is not late.
func (s *reportState) follow(r *report.Report, fed bool) order {
	switch {
	case fed:
		s.skipped = true
		return beside
	case r.Full, !s.skipped && s.epoch == r.Epoch && s.seq > 0 && r.Seq == s.seq+1:
		s.skipped = false
		return next
	}
	s.resyncs++
	if s.epoch == r.Epoch && s.seq > 0 && r.Seq > s.seen+1 {
		s.gaps += r.Seq - s.seen - 1
	}
	return broken
}

// retire begins a new epoch.
func (s *reportState) retire(epoch uint64) {
	if len(s.retired) == maxRetired {
		s.retired = s.retired[1:]
	}
	s.retired = append(s.retired, s.epoch)
	s.epoch, s.seq, s.seen = epoch, 0, 0
}

// comparable reports whether blocks of a size can be matched with prompts: the
// size is a multiple or a divisor of ours, so that so many of one are so many of
// the other.
func (p *Pool) comparable(size int) bool {
	return size > 0 && (size%p.cfg.BlockSize == 0 || p.cfg.BlockSize%size == 0)
}

// apply brings the prefix tree up to the report and returns a test for blocks
// that it removed.
func (p *Pool) apply(slot prefix.Slot, r *report.Report) (gone func(uint64) bool) {
	tree := p.cfg.Tree
	if len(r.Removed) > 0 {
		tree.Remove(slot, r.Removed)
	}
	var keep map[uint64]struct{}
	if r.Full {
		keep = make(map[uint64]struct{}, r.Blocks())
	}
	for i := range r.Chains {
		c := &r.Chains[i]
		parent := c.Parent
		if c.Root {
			parent = prefix.Root(r.Model, c.Adapter, c.SaltHash)
		}
		tree.Store(slot, parent, c.Blocks)
		if keep == nil {
			continue
		}
		for _, fp := range c.Blocks {
			keep[fp] = struct{}{}
		}
	}
	if r.Full {
		has := func(fp uint64) bool { _, ok := keep[fp]; return ok }
		tree.Retain(slot, has)
		return func(fp uint64) bool { return !has(fp) }
	}
	return removedNotStored(r)
}

func removedNotStored(r *report.Report) func(uint64) bool {
	removed := make(map[uint64]bool, len(r.Removed))
	for _, fp := range r.Removed {
		removed[fp] = true
	}
	for i := range r.Chains {
		for _, fp := range r.Chains[i].Blocks {
			delete(removed, fp)
		}
	}
	return func(fp uint64) bool { return removed[fp] }
}

// learn takes over what a report says beside the blocks. The pool's lock is held.
func (p *Pool) learn(e *endpoint, r *report.Report, cache bool, gone func(uint64) bool) {
	now := p.now()
	taken := takenAt(p.since(r.TakenAt), now)
	defer e.arrange(now, p.cfg.Limits)
	s := &e.report
	s.epoch, s.seq, s.at = r.Epoch, r.Seq, now
	s.seen = max(s.seen, r.Seq)
	s.count++
	if r.QueueDepth != nil {
		e.waiting = newer(e.waiting, reading{value: float64(*r.QueueDepth), at: now, source: score.SourceReport})
		e.reported(taken, p.cfg.Limits)
	}
	if r.GPUUtilization != nil {
		e.reportedLoad = reading{value: *r.GPUUtilization, at: now, source: score.SourceReport}
	}
	if r.Health != nil {
		e.reportHealth = reading{value: *r.Health, at: now, source: score.SourceReport}
	}
	if r.Adapters != nil {
		e.reportedAdapters = adapterList{reading: reading{at: now, source: score.SourceReport}, names: slices.Clone(r.Adapters)}
	}
	if cache {
		p.learnCache(e, r, now)
	}
	if gone == nil {
		return
	}
	for q := e.reservations.first; q != nil; q = q.next {
		if q.at.slot == e.slot.Index {
			q.removed(gone, taken)
		}
	}
}

// learnCache notes the time of the cache state. Blocks of a size that is neither
// a multiple nor a divisor of ours can't be compared: the pod's cache is then
// unknown.
func (p *Pool) learnCache(e *endpoint, r *report.Report, now instant) {
	if !p.comparable(r.BlockSize) {
		if e.report.mismatch != r.BlockSize {
			p.cfg.Logger.Warn("block size mismatch: the pod's cache can't be compared",
				logkey.Pod, e.member.Name, logkey.BlockSize, r.BlockSize, logkey.Want, p.cfg.BlockSize)
		}
		e.report.mismatch = r.BlockSize
		e.reportedCache = noneFor(fmt.Sprintf("unknown: block size %d", r.BlockSize))
		return
	}
	e.report.mismatch = 0
	e.reportedCache = reading{at: now, source: score.SourceReport}
	if e.blockSize != r.BlockSize {
		e.blockSize = r.BlockSize
		p.rearrange()
	}
}

// takenAt bounds a sender's idea of when it took a report: clocks differ.
func takenAt(claimed, received instant) instant {
	const most = instant(10 * time.Second)
	if claimed > received || received-claimed > most {
		return received
	}
	return claimed
}
