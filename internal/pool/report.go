package pool

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

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
	at       instant // of the last one
	count    uint64
	gaps     uint64 // reports that were missed
	resyncs  uint64 // full reports that were asked for
	mismatch int    // block size other than ours, 0 = none
}

// Report applies a status report that came from the given IP address. It
// reports whether the sender has to send everything anew.
func (p *Pool) Report(r *report.Report, from string) (resync bool, err error) {
	e, slot, applying, err := p.reporter(r.Pod, from)
	if err != nil {
		return false, err
	}
	applying.Lock()
	defer applying.Unlock()
	if !p.inSequence(e, slot, r) {
		return true, nil
	}
	var gone func(fp uint64) bool
	if r.BlockSize == p.cfg.BlockSize {
		gone = p.apply(slot, r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.slot != slot || !e.member.inPool {
		return false, ErrNotMember
	}
	p.learn(e, r, gone)
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
		host, _, err := net.SplitHostPort(e.member.Address)
		if err != nil || !sameHost(host, from) {
			continue
		}
		if e.report.applying == nil {
			e.report.applying = new(sync.Mutex)
		}
		return e, e.slot, e.report.applying, nil
	}
	return nil, prefix.Slot{}, nil, ErrNotMember
}

// sameHost compares an endpoint's host with a peer's IP address; a host name
// stands for any loopback address only when it is localhost.
func sameHost(host, from string) bool {
	a, b := net.ParseIP(host), net.ParseIP(from)
	if a == nil && strings.EqualFold(host, "localhost") {
		return b != nil && b.IsLoopback()
	}
	return a != nil && b != nil && a.Equal(b)
}

// inSequence reports whether a report continues what is known. An increment of
// another epoch clears the pod: it was restarted, and holds nothing of before.
func (p *Pool) inSequence(e *endpoint, slot prefix.Slot, r *report.Report) bool {
	p.mu.Lock()
	s := &e.report
	restarted := s.epoch != 0 && s.epoch != r.Epoch
	ok := r.Full || (s.epoch == r.Epoch && r.Seq == s.seq+1)
	if !ok {
		s.resyncs++
		if s.epoch == r.Epoch && r.Seq > s.seq {
			s.gaps += r.Seq - s.seq - 1
		}
	}
	if restarted {
		s.epoch, s.seq = r.Epoch, 0
	}
	p.mu.Unlock()
	if restarted {
		p.cfg.Tree.Clear(slot)
	}
	return ok
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
func (p *Pool) learn(e *endpoint, r *report.Report, gone func(uint64) bool) {
	now := p.now()
	taken := takenAt(p.since(r.TakenAt), now)
	defer e.arrange(now, p.cfg.Limits)
	s := &e.report
	s.epoch, s.seq, s.at = r.Epoch, r.Seq, now
	s.count++
	if r.QueueDepth != nil {
		e.waiting = newer(e.waiting, reading{float64(*r.QueueDepth), now, score.SourceReport})
		e.reported(taken)
		e.note(score.QueueDepth, "")
	}
	if r.GPUUtilization != nil {
		e.reportedLoad = reading{*r.GPUUtilization, now, score.SourceReport}
	}
	if r.Health != nil {
		e.reportHealth = reading{*r.Health, now, score.SourceReport}
	}
	if r.Adapters != nil {
		e.adapters = adapterList{
			reading: reading{at: now, source: score.SourceReport}, names: slices.Clone(r.Adapters), max: e.adapters.max,
		}
	}
	p.learnCache(e, r, now)
	if gone == nil {
		return
	}
	for q := e.reservations.first; q != nil; q = q.next {
		if q.last != 0 && q.pickedAt > taken && gone(q.last) {
			q.evicted = true
		}
	}
}

// learnCache notes the time of the cache state. Fingerprints of another block
// size can't be compared with ours: the pod's cache is then unknown.
func (p *Pool) learnCache(e *endpoint, r *report.Report, now instant) {
	if r.BlockSize == p.cfg.BlockSize {
		e.report.mismatch = 0
		e.cache = reading{at: now, source: score.SourceReport}
		e.note(score.CacheMatch, "")
		return
	}
	if e.report.mismatch != r.BlockSize {
		p.cfg.Logger.Warn("block size mismatch: the pod's cache can't be compared",
			"pod", e.member.Name, "blockSize", r.BlockSize, "want", p.cfg.BlockSize)
	}
	e.report.mismatch = r.BlockSize
	e.cache = none
	e.note(score.CacheMatch, fmt.Sprintf("unknown: block size %d", r.BlockSize))
}

// takenAt bounds a sender's idea of when it took a report: clocks differ.
func takenAt(claimed, received instant) instant {
	const most = instant(10 * time.Second)
	if claimed > received || received-claimed > most {
		return received
	}
	return claimed
}
