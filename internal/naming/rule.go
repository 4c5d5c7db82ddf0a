package naming

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Sheddable is the criticality of requests that are refused rather than let into
// full queues. The others, Critical and Standard, change nothing here.
const Sheddable = "Sheddable"

// Rule is one rule of a resource.
type Rule struct {
	Source  string    // the resource: "InferenceModel prod/chat"
	Order   int       // place among its rules, from 1; 0 when it has but one
	Created time.Time // of the resource
	// Older is set for resources that give way to all others: an InferenceModel
	// does to its successor.
	Older bool

	Model string // that clients ask for; "" = any
	Pool  string // "namespace/name"; "" = every pool
	// Targets get the requests; none = the name that was asked for.
	Targets     []Target
	Criticality string // Critical, Standard or Sheddable; "" = not said

	// Unusable is why the rule can't be followed; "" for one that can.
	Unusable string
}

// Target is a model or an adapter that gets some of the requests.
type Target struct {
	Model  string
	Weight int // its share is this by the sum of all; from 0, which is none, to [MaxWeight]
}

// MaxWeight is the largest weight, as the resources' schema has it.
const MaxWeight = 1_000_000

// String is how people are told of a rule.
func (r *Rule) String() string {
	if r.Order == 0 {
		return r.Source
	}
	return fmt.Sprintf("%s rule %d", r.Source, r.Order)
}

// compare orders rules for the same names, the one that counts first.
func (r *Rule) compare(o *Rule) int {
	older := func(r *Rule) int {
		if r.Older {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(older(r), older(o)), r.Created.Compare(o.Created),
		cmp.Compare(r.Source, o.Source), cmp.Compare(r.Order, o.Order), cmp.Compare(r.Pool, o.Pool))
}

// same reports whether two rules do the same to a request, whatever their pools.
func (r *Rule) same(o *Rule) bool {
	return r.Criticality == o.Criticality && slices.Equal(r.Targets, o.Targets)
}

// why is what puts the rule before another one.
func (r *Rule) why(o *Rule) string {
	switch {
	case r.Older != o.Older:
		return r.String() + " is of the newer kind"
	case !r.Created.Equal(o.Created):
		return r.String() + " is older"
	case r.Source != o.Source:
		return r.String() + " is as old, and its name comes first"
	}
	return r.String() + " comes before it"
}

func poolName(pool string) string {
	if pool == "" {
		return "every pool"
	}
	return "the pool " + pool
}

// Conflict is a rule that does not count for a name, or for any.
type Conflict struct {
	Model string // "" = all names
	Pool  string // of the rule; "" = every pool
	Loser string // the rule
	// Source is the loser's resource.
	Source string
	// Winner is the rule that counts in its place; "" when there is none.
	Winner string
	Why    string // in words
}

// String is the conflict in a sentence.
func (c Conflict) String() string {
	about := "all names"
	if c.Model != "" {
		about = fmt.Sprintf("the model %q", c.Model)
	}
	return fmt.Sprintf("%s does not count for %s: %s", c.Loser, about, c.Why)
}
