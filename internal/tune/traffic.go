package tune

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/simulate"
	"github.com/eppctl/eppctl/score"
)

// Bounds of what is held in memory.
const (
	MaxDecisions = explain.MaxWindow // more are passed over
	maxPodStates = 300_000           // of the decisions that are taken again for each move
	maxNamed     = 5                 // decisions that do not replay
)

// ErrOrigin is the error for decisions that another picker took.
var ErrOrigin = errors.New("another picker took these decisions: its weights are not eppctl's to tune")

// Traffic takes in decisions, and keeps of each what advice is made of. Make one with
// NewTraffic. The newest of them may not be known until all were seen; their order does
// not matter, but of more than [MaxDecisions] the first are kept.
type Traffic struct {
	// Passed are the decisions beyond [MaxDecisions].
	Passed int

	newest  *explain.Record
	oldest  time.Time
	seen    int            // replayed, and not passed over
	others  int            // that another policy than the scores took
	under   map[string]int // by weights
	differ  []Difference
	differs int
	tally   tally
	records simulate.Records
	kept    sampled
}

// Difference is a decision that does not replay.
type Difference struct {
	RequestID  string
	DecisionID string
	Difference string
}

// ReplayError says that recorded decisions come out otherwise when they are taken
// again: advice would not be about this picker.
type ReplayError struct {
	Decisions, Differ int
	First             []Difference
}

// Error implements error.
func (e *ReplayError) Error() string {
	lines := []string{fmt.Sprintf("%d of %d decisions come out otherwise when they are taken again with the same weights", e.Differ, e.Decisions)}
	for _, d := range e.First {
		lines = append(lines, d.DecisionID+": "+d.Difference)
	}
	return strings.Join(lines, "\n")
}

// NewTraffic knows of no decision yet.
func NewTraffic() *Traffic {
	return &Traffic{tally: newTally(), kept: sampled{stride: 1}, under: map[string]int{}}
}

// setOf names weights, whenever they were put in force.
func setOf(w explain.Weights) string {
	w.Generation = 0
	return fmt.Sprint(w)
}

// underOthers counts decisions under other weights than those of the newest.
func (t *Traffic) underOthers() int {
	n := 0
	for set, decisions := range t.under {
		if set != setOf(t.newest.Weights) {
			n += decisions
		}
	}
	return n
}

// See takes a decision again and looks at it. It fails with [ErrOrigin], for decisions
// that are not ours.
func (t *Traffic) See(rec *explain.Record) error {
	if rec.Origin != nil {
		return ErrOrigin
	}
	if t.seen == MaxDecisions {
		t.Passed++
		return nil
	}
	t.seen++
	check, in, d := explain.Replay(rec)
	if !check.Identical {
		if t.differs++; len(t.differ) < maxNamed {
			t.differ = append(t.differ, Difference{rec.RequestID, rec.DecisionID, check.Difference})
		}
		return nil
	}
	if t.newest == nil || rec.Time.After(t.newest.Time) {
		t.newest = rec
	}
	if t.oldest.IsZero() || rec.Time.Before(t.oldest) {
		t.oldest = rec.Time
	}
	if rec.Policy != "" && rec.Policy != explain.PolicyScores {
		t.others++
		return nil
	}
	t.under[setOf(rec.Weights)]++
	t.kept.add(in, rec.Request.BlockSize)
	t.tally.see(rec, in, d)
	if err := t.records.Add(rec); err != nil {
		return fmt.Errorf("the arrivals of %d decisions: %w", t.seen, err)
	}
	return nil
}

// Weights are those in force at the newest decision; nil without one.
func (t *Traffic) Weights() *score.Weights {
	if t.newest == nil {
		return nil
	}
	in, err := t.newest.Inputs()
	if err != nil {
		return nil
	}
	return in.Weights
}

// check says why there can be no advice.
func (t *Traffic) check() error {
	switch {
	case t.differs > 0:
		return &ReplayError{t.seen, t.differs, t.differ}
	case t.newest == nil:
		return errors.New("no decision to go by")
	case t.tally.picks == 0 && t.others > 0:
		return fmt.Errorf("policy %s took these decisions: no weight was in force", t.newest.Policy)
	case t.tally.picks == 0:
		return errors.New("no request of these decisions was given to a pod")
	}
	return nil
}

// sampled keeps decisions to take again, evenly spread when there are many.
type sampled struct {
	list      []taken
	stride    int // every so many are kept
	seen      int
	podStates int
}

// taken is a decision's inputs.
type taken struct {
	in        *score.Inputs
	blockSize int
}

func (s *sampled) add(in *score.Inputs, blockSize int) {
	if s.seen%s.stride == 0 {
		s.list = append(s.list, taken{in, blockSize})
		s.podStates += len(in.Pods)
	}
	s.seen++
	if s.podStates <= maxPodStates {
		return
	}
	half := s.list[:0]
	s.podStates = 0
	for i, k := range s.list {
		if i%2 == 0 {
			half = append(half, k)
			s.podStates += len(k.in.Pods)
		}
	}
	clear(s.list[len(half):])
	s.list, s.stride = half, 2*s.stride
}
