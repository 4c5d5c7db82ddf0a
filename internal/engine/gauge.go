package engine

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// gauge is one family of a page, folded to a value a rank. The rank "" holds
// series without a rank's label.
type gauge struct {
	// absent is the reason of every value when the page has no such family.
	absent string
	series string
	label  string
	ranks  map[string]Value
}

// readGauge reads the first of the families that has a usable value, or, when
// none has, the first that is there at all, for its reason.
func readGauge(f families, d dialect, names []string) gauge {
	var first gauge
	for _, name := range names {
		samples := f.of(name)
		if len(samples) == 0 {
			continue
		}
		g := gauge{series: name, label: d.rank, ranks: foldRanks(name, samples, d)}
		if g.usable() {
			return g
		}
		if first.series == "" {
			first = g
		}
	}
	if first.series == "" {
		first.absent = "page has no " + strings.Join(names, " or ")
	}
	return first
}

func foldRanks(name string, samples []sample, d dialect) map[string]Value {
	fold := sum
	if d.copies {
		fold = math.Max
	}
	ranks := make(map[string]Value, 1)
	totalsOnly := slices.ContainsFunc(samples, isTotal)
	for i := range samples {
		s := &samples[i]
		if totalsOnly && len(s.label(priorityLabel)) > 0 {
			continue
		}
		rank := s.label(d.rank)
		next := known(name, s.value)
		if last, twice := ranks[string(rank)]; twice {
			next = combine(last, next, fold)
		}
		ranks[string(rank)] = next
	}
	return ranks
}

// priorityLabel splits a queue of SGLang: the series with the empty priority is
// the total, the others are its parts and would be counted twice.
const priorityLabel = "priority"

func isTotal(s sample) bool {
	p := s.label(priorityLabel)
	return p != nil && len(p) == 0
}

// combine folds two values; an unknown one makes the result unknown, since what
// is missing is not zero.
func combine(a, b Value, fold func(a, b float64) float64) Value {
	switch {
	case !a.Known:
		return a
	case !b.Known:
		return b
	}
	return known(a.Series, fold(a.V, b.V))
}

func (g gauge) usable() bool {
	for _, v := range g.ranks {
		if !v.Known {
			return false
		}
	}
	return true
}

// rank is the value of one rank.
func (g gauge) rank(name string) Value {
	if g.absent != "" {
		return unknown("", g.absent)
	}
	if v, ok := g.ranks[name]; ok {
		return v
	}
	return unknown(g.series, fmt.Sprintf("%s has no series with %s=%.40q", g.series, g.label, name))
}

// total folds the ranks to the pod's value. When the family tells ranks apart
// it must have all that the page has: a sum without one of them is not known.
func (g gauge) total(ranks []string, fold func(a, b float64) float64) Value {
	if g.absent != "" {
		return unknown("", g.absent)
	}
	var all []Value
	plain, hasPlain := g.ranks[""]
	if hasPlain {
		all = append(all, plain)
	}
	if !hasPlain || len(g.ranks) > 1 {
		for _, name := range ranks {
			all = append(all, g.rank(name))
		}
	}
	v := all[0]
	for _, next := range all[1:] {
		v = combine(v, next, fold)
	}
	return v
}

// rankNames are the ranks that any of the gauges names, by number.
func rankNames(gauges ...gauge) []string {
	names := make(map[string]bool)
	for _, g := range gauges {
		for name := range g.ranks {
			if name != "" {
				names[name] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		x, errX := strconv.Atoi(a)
		y, errY := strconv.Atoi(b)
		if errX != nil || errY != nil {
			return cmp.Compare(a, b)
		}
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	})
}
