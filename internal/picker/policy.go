package picker

import (
	"fmt"
	"strings"

	"github.com/eppctl/eppctl/score"
)

// Policy says what picks among the eligible pods.
type Policy uint8

// The policies. Only the first looks at scores; the others are there to compare
// with, and their records still hold every score.
const (
	PolicyScores Policy = iota
	PolicyRandom
	PolicyRoundRobin
	PolicyLeastConnections
)

var policyNames = []string{"scores", "random", "round-robin", "least-connections"}

// String is the policy's spelling in flags and records.
func (p Policy) String() string { return policyNames[p] }

// ParsePolicy is the inverse of [Policy.String].
func ParsePolicy(name string) (Policy, error) {
	for i, n := range policyNames {
		if n == name {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("unknown policy %q: the policies are %s", name, strings.Join(policyNames, ", "))
}

// pick chooses among the eligible pods of a decision.
func (p Policy) pick(s *scratch) int {
	n := uint64(s.dec.Eligible)
	switch p {
	case PolicyRandom:
		return s.eligible(s.rng.Uint64N(n))
	case PolicyRoundRobin:
		return s.eligible((s.picker.turn.Add(1) - 1) % n)
	case PolicyLeastConnections:
		best := -1
		for i := range s.in.Pods {
			if s.dec.Results[i].Reason == score.Eligible && (best < 0 || s.in.Pods[i].InFlight < s.in.Pods[best].InFlight) {
				best = i
			}
		}
		return best
	case PolicyScores:
	}
	return s.dec.Winner
}

// eligible is the index of the n-th eligible pod.
func (s *scratch) eligible(n uint64) int {
	for i := range s.dec.Results {
		if s.dec.Results[i].Reason != score.Eligible {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return s.dec.Winner
}

// maxReasons bounds how many pods a refusal lists.
const maxReasons = 8

// reasons lists why pods are out, for the client's error message.
func (s *scratch) reasons() string {
	var b strings.Builder
	for i := range s.in.Pods {
		if i == maxReasons {
			fmt.Fprintf(&b, ", and %d more", len(s.in.Pods)-maxReasons)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", s.in.Pods[i].Pod, s.dec.Results[i].Reason)
	}
	return b.String()
}
