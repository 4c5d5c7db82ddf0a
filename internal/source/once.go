package source

import (
	"hash/maphash"

	"github.com/eppctl/eppctl/explain"
)

// maxDistinct bounds how many decisions are remembered, in some 80 MB. Of more than
// these, one that comes again counts again.
const maxDistinct = 4 << 20

// once tells a decision that has been there before: a file and its packed copy, or
// two exports, hold the same ones. It remembers hashes of IDs. The zero value is
// usable.
type once struct {
	seen map[uint64]struct{}
	left int // how many came again
}

var idSeed = maphash.MakeSeed()

// again reports whether the decision has been there before.
func (o *once) again(rec *explain.Record) bool {
	if rec.DecisionID == "" {
		return false
	}
	id := maphash.String(idSeed, rec.DecisionID)
	if _, again := o.seen[id]; again {
		o.left++
		return true
	}
	if o.seen == nil {
		o.seen = map[uint64]struct{}{}
	}
	if len(o.seen) < maxDistinct {
		o.seen[id] = struct{}{}
	}
	return false
}

// settled hands on each decision once. Those that have not ended wait for the end of
// the text, as a copy that was made later tells how they did.
type settled struct {
	once
	visit   func(*explain.Record) error
	pending []*explain.Record
}

func (s *settled) add(rec *explain.Record) error {
	if pending(rec) && len(s.pending) < maxRecords {
		s.pending = append(s.pending, rec)
		return nil
	}
	if s.again(rec) {
		return nil
	}
	return s.visit(rec)
}

func (s *settled) flush() error {
	for _, rec := range s.pending {
		if s.again(rec) {
			continue
		}
		if err := s.visit(rec); err != nil {
			return err
		}
	}
	return nil
}

func pending(rec *explain.Record) bool { return rec.Outcome.State == explain.OutcomePending }

// byOutcome puts what has ended before what has not.
func byOutcome(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
