package vllm

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// TokensPerBlock is the block size of the simulated cache.
const TokensPerBlock = 16

// A Profile is what a step costs. A step is one forward pass over the batch:
//
//	Step + Uncached × prompt tokens computed in it
//	     + Cached × tokens found in the cache of requests that start in it
//	     + the load times of adapters that it has to load first
//
// The figures are anchored on an A100 80GB: a cold prompt of 4096 tokens takes
// 0.9 s on Llama-3.1-8B and 8.2 s on 70B, one that is wholly cached 45 ms
// (scoring.md §5).
type Profile struct {
	Name     string
	Step     time.Duration
	Uncached time.Duration // per token
	Cached   time.Duration // per token
}

var profiles = []Profile{
	{Name: "llama-8b", Step: 8 * time.Millisecond, Uncached: 220 * time.Microsecond, Cached: 11 * time.Microsecond},
	{Name: "llama-70b", Step: 25 * time.Millisecond, Uncached: 2 * time.Millisecond, Cached: 11 * time.Microsecond},
}

// ProfileNamed finds a profile; "" is llama-8b.
func ProfileNamed(name string) (Profile, error) {
	if name == "" {
		return profiles[0], nil
	}
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		var known []string
		for _, p := range profiles {
			known = append(known, p.Name)
		}
		return Profile{}, fmt.Errorf("no profile %q; there are %s", name, strings.Join(known, ", "))
	}
	return profiles[i], nil
}

// LoadPerRank makes the two load times that are known: 200 ms for an adapter of
// rank 16, 800 ms for rank 64.
const LoadPerRank = 12_500 * time.Microsecond

// An Adapter is a LoRA adapter that an engine can load.
type Adapter struct {
	Name string
	Rank int           // 0: 16, the usual one
	Load time.Duration // 0: by rank
}

func (a Adapter) loadTime() time.Duration {
	if a.Load > 0 {
		return a.Load
	}
	if a.Rank == 0 {
		a.Rank = 16
	}
	return time.Duration(a.Rank) * LoadPerRank
}
