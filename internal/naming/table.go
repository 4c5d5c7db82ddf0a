package naming

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
)

// Table is a set of rules in the order in which they count. It is immutable; a nil
// one has no rules.
type Table struct {
	exact     map[string]*entry
	any       *entry
	conflicts []Conflict
}

// entry is what is done to the requests for a name.
type entry struct {
	rule    *Rule
	by      string
	targets []Target
	sum     int      // of the weights
	pools   []string // nil = every pool
}

// Naming is what the table makes of one request's model.
type Naming struct {
	// To is the engines' name; "" when the rule has targets and no weight above 0:
	// the name is then reserved, and nothing serves it.
	To string
	By string // the rule, see [Rule.String]
	// The target has Weight of the Sum of all, of which there are Targets; all are 0
	// when the name stays.
	Weight, Sum, Targets int
	Pools                []string // that serve the name, sorted; nil = every pool. Not to be changed
	Criticality          string   // "" = not said
}

// NewTable lays out the rules, in whatever order they come. It returns those that
// do not count, by name and then by precedence.
func NewTable(rules []Rule) (*Table, []Conflict) {
	t := &Table{exact: map[string]*entry{}}
	byModel := map[string][]*Rule{}
	for i := range rules {
		r := &rules[i]
		byModel[r.Model] = append(byModel[r.Model], r)
	}
	for model, of := range byModel {
		slices.SortFunc(of, (*Rule).compare)
		e := t.settle(of)
		switch {
		case e == nil:
		case model == "":
			t.any = e
		default:
			t.exact[model] = e
		}
	}
	slices.SortStableFunc(t.conflicts, func(a, b Conflict) int { return cmp.Compare(a.Model, b.Model) })
	return t, t.conflicts
}

// settle finds what counts of the rules for one name, which come in their order;
// nil when none does.
func (t *Table) settle(rules []*Rule) (e *entry) {
	counts := map[string]*Rule{} // by pool
	for _, r := range rules {
		before := counts[r.Pool]
		switch {
		case r.Unusable != "":
			t.lose(r, "", r.Unusable)
		case e == nil:
			e = newEntry(r)
			counts[r.Pool] = r
		case before != nil && before.Source == r.Source && before.Order == r.Order:
			// It names the model twice.
		case before != nil:
			t.lose(r, before.String(), before.why(r))
		case r.same(e.rule):
			counts[r.Pool] = r
			e.pools = append(e.pools, r.Pool)
		default:
			counts[r.Pool] = r
			t.lose(r, e.by, fmt.Sprintf("%s goes before it, with other targets or criticality, for %s", e.by, poolName(e.rule.Pool)))
		}
	}
	if e != nil {
		slices.Sort(e.pools)
		if e.pools[0] == "" {
			e.pools = nil
		}
	}
	return e
}

func (t *Table) lose(r *Rule, winner, why string) {
	t.conflicts = append(t.conflicts, Conflict{Model: r.Model, Pool: r.Pool, Loser: r.String(), Source: r.Source, Winner: winner, Why: why})
}

func newEntry(r *Rule) *entry {
	e := &entry{rule: r, by: r.String(), targets: slices.Clone(r.Targets), pools: []string{r.Pool}}
	for i := range e.targets {
		w := &e.targets[i].Weight
		*w = min(max(*w, 0), MaxWeight)
		e.sum += *w
	}
	return e
}

// Conflicts are the rules that do not count, as [NewTable] returned them.
func (t *Table) Conflicts() []Conflict {
	if t == nil {
		return nil
	}
	return t.conflicts
}

// Len is the number of names that the table knows; one for all names counts as one.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	n := len(t.exact)
	if t.any != nil {
		n++
	}
	return n
}

// Name says what a request for a model gets; ok is false when no rule is for it. It
// says the same of the same ID each time, wherever it is asked.
func (t *Table) Name(model, requestID string) (n Naming, ok bool) {
	if t == nil || model == "" {
		return Naming{}, false
	}
	e := t.exact[model]
	if e == nil {
		e = t.any
	}
	if e == nil {
		return Naming{}, false
	}
	n = Naming{To: model, By: e.by, Pools: e.pools, Criticality: e.rule.Criticality}
	if len(e.targets) == 0 {
		return n, true
	}
	target := e.pick(requestID)
	n.To, n.Weight, n.Sum, n.Targets = target.Model, target.Weight, e.sum, len(e.targets)
	return n, true
}

// pick is the target of a request, and none when no weight is above 0. Each has a
// part of the hashes that is as large as its share.
func (e *entry) pick(requestID string) Target {
	place, _ := bits.Mul64(hash(requestID), uint64(e.sum))
	for _, target := range e.targets {
		if place < uint64(target.Weight) {
			return target
		}
		place -= uint64(target.Weight)
	}
	return Target{}
}

// hash is FNV-1a with the finalizer of MurmurHash3: IDs that differ in a digit
// only must end up far apart. It must stay as it is, lest replicas of two versions
// disagree.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Entry is what the table says of one name.
type Entry struct {
	Model       string // "" = all names that have no entry of their own
	By          string
	Targets     []Target // none = the name itself
	Pools       []string // sorted; nil = every pool
	Criticality string
}

// Entries are all names, sorted, the one for all others first. Nothing in them may be
// changed.
func (t *Table) Entries() []Entry {
	if t == nil {
		return nil
	}
	list := make([]Entry, 0, t.Len())
	add := func(e *entry) {
		list = append(list, Entry{Model: e.rule.Model, By: e.by, Targets: e.targets, Pools: e.pools, Criticality: e.rule.Criticality})
	}
	if t.any != nil {
		add(t.any)
	}
	for _, model := range slices.Sorted(maps.Keys(t.exact)) {
		add(t.exact[model])
	}
	return list
}
