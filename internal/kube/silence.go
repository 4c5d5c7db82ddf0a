package kube

import (
	"fmt"
	"slices"
	"time"
)

// Silence is what it has no news of, but for what may not be read, and since when; of is
// "" when that is all that it watches.
func (w *Watch) Silence() (since time.Time, of string, silent bool) {
	problems, _ := w.trouble.list()
	problems = slices.DeleteFunc(problems, func(p Problem) bool { return p.Forbidden })
	if len(problems) == 0 {
		return since, "", false
	}
	first := slices.MinFunc(problems, func(a, b Problem) int { return a.Since.Compare(b.Since) })
	switch n := len(problems); {
	case n >= int(w.watching.Load()):
	case n > 1:
		of = fmt.Sprintf("%s and %d more", first.What, n-1)
	default:
		of = first.What
	}
	return first.Since, of, true
}

// count is how many feeds have something to read.
func (w *Watch) count() (n int32) {
	add := func(there bool) {
		if there {
			n++
		}
	}
	for _, p := range w.pools {
		add(!p.v1.isAbsent())
		add(p.old != nil && !p.old.isAbsent())
		add(p.pods != nil)
	}
	for _, m := range w.models {
		add(!m.models.isAbsent())
		for _, r := range m.rewrites {
			add(!r.isAbsent())
		}
	}
	add(w.settings != nil)
	return n
}
