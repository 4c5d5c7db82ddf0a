package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/score"
)

// missing names the inputs that were stale or unknown, one note a factor and
// state. It is minor where the input at its best would have changed nothing.
func (f *finder) missing() []Note {
	var out []Note
	if len(f.Candidates) == 0 {
		return out
	}
	for k := range f.Candidates[0].Factors {
		for _, s := range []score.State{score.Stale, score.Unknown} {
			text := f.missingIn(k, s.String())
			if text == "" {
				continue
			}
			cause := CauseInputMissing
			if s == score.Stale {
				cause = CauseInputStale
			}
			out = append(out, Note{Cause: cause, Text: text, Evidence: []Evidence{}, minor: !f.matters(k, s.String())})
		}
	}
	return out
}

func (r *Report) missingIn(f int, state string) string {
	var pods []string
	for i := range r.Candidates {
		if r.Candidates[i].Factors[f].State == state {
			pods = append(pods, r.Candidates[i].Pod)
		}
	}
	name, total := r.Candidates[0].Factors[f].Name, len(r.Candidates)
	const named = 3
	switch {
	case len(pods) == 0:
		return ""
	case len(pods) == total && total > 1:
		return name + " is " + state + " for every eligible pod, so it could not change the order"
	case len(pods) > named:
		return fmt.Sprintf("%s is %s for %d of %d eligible pods and counts 0 there", name, state, len(pods), total)
	}
	return name + " is " + state + " for " + strings.Join(pods, ", ") + " and counts 0 there"
}

// matters reports whether one of the pods whose input is in that state would have
// won with the best value of it. What no pod has could not change the order.
func (f *finder) matters(factor int, state string) bool {
	some := slices.ContainsFunc(f.Candidates, func(s Standing) bool { return s.Factors[factor].State != state })
	if !some || !f.Replay.Identical || f.Candidates[0].Factors[factor].Weight == 0 {
		return false
	}
	var d score.Decision
	for k := range f.Candidates {
		s := &f.Candidates[k]
		if s.Picked || s.Factors[factor].State != state {
			continue
		}
		i := f.in.rec.place(s.Pod, s.Endpoint)
		f.in.in.Change(i, factor, f.in.best(factor)).Decide(&d)
		if d.Winner == i {
			return true
		}
	}
	return false
}

// otherBlockSize names the pods whose blocks can't be compared.
func (f *finder) otherBlockSize() string {
	var pods []string
	detail := ""
	for i := range f.in.rec.Candidates {
		c := &f.in.rec.Candidates[i]
		if _, size, found := strings.Cut(c.Cache.Detail, "block size "); found && c.Cache.State == score.Unknown.String() {
			pods, detail = append(pods, c.Pod), size
		}
	}
	if len(pods) == 0 {
		return ""
	}
	return fmt.Sprintf("the cache of %s is unknown: its blocks have %s tokens, the picker's %d",
		strings.Join(pods, ", "), detail, f.BlockSize)
}

// approximate is the [Request.TokensFrom] of ids that were guessed.
const approximate = "approximate"

// miscounted says that guessed token ids were not the engine's.
func (f *finder) miscounted() string {
	counted := f.Outcome.PromptTokens
	if f.TokensFrom != approximate || counted == nil || *counted == f.PromptTokens {
		return ""
	}
	return fmt.Sprintf("the token ids were approximate: the engine counted %s in the prompt, the picker %d",
		count(*counted, "token"), f.PromptTokens)
}

// clearly is by how much of a prompt or of a full queue two pods have to differ for
// that to be worth a note.
const clearly = 0.25

// otherWeights tells when most presets would have picked the pod that holds clearly
// more of the prompt than the winner: then it is the weights in force that did not.
func (f *finder) otherWeights() string {
	owner := f.lostOwner()
	if owner < 0 {
		return ""
	}
	in := *f.in.in
	var d score.Decision
	var wins []string
	all := score.PresetNames()
	for _, name := range all {
		w, err := score.Preset(name)
		if err != nil {
			continue
		}
		w.Saturation, w.MaxUtilization = in.Weights.Saturation, in.Weights.MaxUtilization
		changed := in
		changed.Weights = &w
		if changed.Decide(&d); d.Winner == owner {
			wins = append(wins, name)
		}
	}
	if 2*len(wins) <= len(all) {
		return ""
	}
	c := &f.in.rec.Candidates[owner]
	held, _ := c.held()
	return fmt.Sprintf("%s holds %s of the prompt's %s and lost; with the weights of most presets it wins (%s)",
		c.Pod, number(held), count(f.Blocks, "block"), strings.Join(wins, ", "))
}

// lostOwner is the eligible pod that holds clearly more of the prompt than the
// winner; −1 when there is none, or when the record can't tell.
func (f *finder) lostOwner() int {
	rec := f.in.rec
	picked := rec.Result.Index
	if !f.Replay.Identical || !f.byScores() || picked < 0 || f.Blocks == 0 || len(rec.Weights.Custom) > 0 {
		return -1
	}
	won, ok := rec.Candidates[picked].held()
	if !ok {
		return -1
	}
	owner, most := -1, won+math.Max(1, clearly*float64(f.Blocks))
	for i := range rec.Candidates {
		c := &rec.Candidates[i]
		if held, ok := c.held(); ok && c.Reason == "" && c.Cache.State != score.Stale.String() && held >= most {
			owner, most = i, held
		}
	}
	return owner
}
