package source

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"slices"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

const (
	// maxRecords and maxCandidates bound what is sorted at a time. Decisions come in
	// the order of completion; one that took long may be so many places late.
	maxRecords    = 1024
	maxCandidates = 1 << 16
	// maxHeld bounds what is kept of a text that can only be read forwards, in bytes.
	maxHeld = 256 << 20
)

// newest sorts decisions that come nearly newest first, and hands each on once.
type newest struct {
	limit int // 0 = none
	visit func(*explain.Record) error

	once
	waiting    byTime
	candidates int
	visited    int
	more       bool
}

var errEnough = errors.New("the limit is reached")

// add takes one more. [errEnough] says that no more are wanted.
func (n *newest) add(rec *explain.Record) error {
	heap.Push(&n.waiting, rec)
	n.candidates += len(rec.Candidates)
	for len(n.waiting) > maxRecords || n.candidates > maxCandidates && len(n.waiting) > 1 {
		if err := n.next(); err != nil {
			return err
		}
	}
	return nil
}

// flush hands on what is left.
func (n *newest) flush() error {
	for len(n.waiting) > 0 {
		if err := n.next(); err != nil {
			return err
		}
	}
	return nil
}

func (n *newest) next() error {
	rec := heap.Pop(&n.waiting).(*explain.Record)
	n.candidates -= len(rec.Candidates)
	return n.emit(rec)
}

// emit hands on the next decision.
func (n *newest) emit(rec *explain.Record) error {
	if n.again(rec) {
		return nil
	}
	if n.limit > 0 && n.visited == n.limit {
		n.more = true
		return errEnough
	}
	n.visited++
	return n.visit(rec)
}

// byTime is a heap whose first is the newest.
type byTime []*explain.Record

func (h byTime) Len() int           { return len(h) }
func (h byTime) Less(i, j int) bool { return newestFirst(h[i], h[j]) < 0 }
func (h byTime) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// newestFirst compares decisions; of two copies that which tells the outcome comes
// first.
func newestFirst(a, b *explain.Record) int {
	return cmp.Or(b.Time.Compare(a.Time), byOutcome(pending(a), pending(b)))
}

// Push implements [heap.Interface].
func (h *byTime) Push(rec any) { *h = append(*h, rec.(*explain.Record)) }

// Pop implements [heap.Interface].
func (h *byTime) Pop() any {
	last := len(*h) - 1
	rec := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	return rec
}

// held keeps the decisions of a text that is read forwards: the newest few when
// there is a limit, else all, as lines, up to [maxHeld].
type held struct {
	limit   int
	newest  []*explain.Record
	lines   []heldLine
	bytes   int
	left    int // copies that were left out
	crowded bool
}

type heldLine struct {
	at      time.Time
	pending bool
	text    []byte
}

// add keeps one; false when there is no room.
func (h *held) add(rec *explain.Record) bool {
	if h.limit > 0 {
		h.newest = append(h.newest, rec)
		if keep := h.limit + 1; len(h.newest) >= 2*keep+maxRecords { // one more shows that there are more
			h.sort()
			h.newest = slices.Clone(h.newest[:min(keep, len(h.newest))])
		}
		return true
	}
	var line bytes.Buffer
	if record.Encode(&line, rec) != nil || h.bytes+line.Len() > maxHeld {
		h.crowded = true
		return false
	}
	h.bytes += line.Len()
	h.lines = append(h.lines, heldLine{rec.Time, pending(rec), line.Bytes()})
	return true
}

// sort sorts the newest and leaves out copies.
func (h *held) sort() {
	slices.SortStableFunc(h.newest, newestFirst)
	var o once
	h.newest = slices.DeleteFunc(h.newest, o.again)
	h.left += o.left
}

// each visits what is kept, newest first, or when it became too much in the order
// in which it came.
func (h *held) each(visit func(*explain.Record) error) error {
	h.sort()
	for _, rec := range h.newest {
		if err := visit(rec); err != nil {
			return err
		}
	}
	if !h.crowded {
		slices.SortStableFunc(h.lines, func(a, b heldLine) int {
			return cmp.Or(b.at.Compare(a.at), byOutcome(a.pending, b.pending))
		})
	}
	for _, line := range h.lines {
		rec, err := record.Decode(record.Line{Text: line.text, Whole: true})
		if err != nil {
			return err
		}
		if err := visit(rec); err != nil {
			return err
		}
	}
	h.lines = nil
	return nil
}
