package explain

import (
	"cmp"
	"slices"
)

// MaxAlike is how many decisions an [Alike] keeps.
const MaxAlike = 64

// Alike keeps, of many decisions, those whose prompts began most like one: what
// [Options.Earlier] and [Converse] go by. The zero value is not usable.
type Alike struct {
	of    *Record
	found []prior
}

// NewAlike looks for decisions like of.
func NewAlike(of *Record) *Alike { return &Alike{of: of} }

// FirstBlock is the id of the first block: decisions whose chains begin with
// another have nothing in common with it. It is "" when there is none, and then
// nothing is alike.
func (a *Alike) FirstBlock() string {
	if !a.of.Request.chained() {
		return ""
	}
	return a.of.Request.Chain[0]
}

// See looks at a decision, in any order.
func (a *Alike) See(rec *Record) {
	shared := SharedBlocks(&rec.Request, &a.of.Request)
	if shared == 0 || rec.DecisionID == a.of.DecisionID {
		return
	}
	if a.found = append(a.found, prior{rec, shared}); len(a.found) == 2*MaxAlike {
		a.cut()
	}
}

func (a *Alike) cut() {
	slices.SortStableFunc(a.found, func(x, y prior) int {
		return cmp.Or(cmp.Compare(y.shared, x.shared), y.rec.Time.Compare(x.rec.Time))
	})
	a.found = a.found[:min(len(a.found), MaxAlike)]
}

// Records are the decisions that have most in common, the most first and of equal
// ones the newest.
func (a *Alike) Records() []*Record {
	a.cut()
	out := make([]*Record, len(a.found))
	for i := range a.found {
		out[i] = a.found[i].rec
	}
	return out
}
