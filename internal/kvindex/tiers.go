package kvindex

import (
	"cmp"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/internal/kvevent"
)

// TierSet is a set of tiers.
type TierSet uint8

// Tiers makes a set.
func Tiers(tiers ...kvevent.Tier) TierSet {
	var s TierSet
	for _, t := range tiers {
		s |= 1 << t
	}
	return s
}

// Has reports whether t is in the set.
func (s TierSet) Has(t kvevent.Tier) bool { return s>>t&1 != 0 }

// TierWeights is what a block is worth by its tier, from 0 for nothing to 1.
type TierWeights [kvevent.OtherTier + 1]float64

// MaxLevels bounds how many different weights there can be.
const MaxLevels = int(kvevent.OtherTier) + 1

// A Level is the tiers of one weight and of all higher ones: where a rank has a
// block in one of these, it has it on this level.
type Level struct {
	Tiers  TierSet
	Weight float64 // of a block that is on this level and on none before
	// Name is the tiers that it has beyond the level before: "gpu", "cpu+disk".
	Name string
}

// Levels has one level for each weight above 0, the highest first. So each holds
// all that the one before does.
func (w *TierWeights) Levels() []Level {
	tiers := make([]kvevent.Tier, 0, len(w))
	for t := range w {
		if w[t] > 0 {
			tiers = append(tiers, kvevent.Tier(t))
		}
	}
	slices.SortStableFunc(tiers, func(a, b kvevent.Tier) int { return cmp.Compare(w[b], w[a]) })
	var levels []Level
	var names []string
	for i, t := range tiers {
		if i == 0 || w[t] < w[tiers[i-1]] {
			levels, names = append(levels, Level{Weight: w[t]}), nil
		}
		names = append(names, t.String())
		l := &levels[len(levels)-1]
		l.Tiers, l.Name = Tiers(tiers[:i+1]...), strings.Join(names, "+")
	}
	return levels
}

// GPUAlone is the level of blocks that are on the GPU.
func GPUAlone() []Level { return (&TierWeights{kvevent.GPU: 1}).Levels() }
