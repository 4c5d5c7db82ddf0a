package explain

import (
	"fmt"
	"slices"
	"strings"
)

// A pool of hundreds of pods has to be told in a few lines: the best, the one that
// holds most of the prompt, the picked one; and the excluded by their reasons.

// shown lists the places of the pods to show.
func (r *Report) shown(all bool) []int {
	owner := r.holder()
	var out []int
	for i := range r.Candidates {
		if all || i < topPods || i == owner || r.Candidates[i].Picked {
			out = append(out, i)
		}
	}
	return out
}

// holder is the place of the pod that could win and holds most of the prompt; −1
// when none holds any, or it is not known.
func (r *Report) holder() int {
	best, most := -1, 0.0
	for i := range r.Candidates {
		f := r.Candidates[i].factorNamed("cacheMatch")
		if f == nil || f.Input.Cache == nil || f.Input.Cache.MatchedBlocks == nil {
			continue
		}
		if held := *f.Input.Cache.MatchedBlocks; held > most {
			best, most = i, held
		}
	}
	return best
}

// group is the excluded pods of one reason. The best, which is the first, is the one
// that would have scored most, as far as that is known.
type group struct {
	reason string
	pods   []string
	best   *Exclusion
}

// text names the first pods, and tells the best of them in full.
func (g *group) text() string {
	if len(g.pods) == 1 {
		return g.best.text()
	}
	return fmt.Sprintf("%d %s: %s; the first one: %s; %s", len(g.pods), g.reason, names(g.pods), g.best.Detail, g.best.wouldText())
}

// names lists the first few of many names.
func names(all []string) string {
	if len(all) <= topPods {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:topPods], ", "), len(all)-topPods)
}

// oneByOne reports whether the excluded are few enough for a line each.
func (r *Report) oneByOne(all bool) bool { return all || len(r.Excluded) <= topPods }

// grouped are the excluded pods by reason, in the order of the best of each.
func (r *Report) grouped() []group {
	var out []group
	for i := range r.Excluded {
		x := &r.Excluded[i]
		at := slices.IndexFunc(out, func(g group) bool { return g.reason == x.Reason })
		if at < 0 {
			at = len(out)
			out = append(out, group{reason: x.Reason, best: x})
		}
		out[at].pods = append(out[at].pods, x.Pod)
	}
	return out
}
