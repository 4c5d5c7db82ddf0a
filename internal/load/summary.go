package load

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// Summary is what the records of a run say.
type Summary struct {
	Requests, Errors int
	FirstFailure     string
	Elapsed, Wall    time.Duration
	Decisions        int            // records that were found
	Picks            map[string]int // by pod
	PromptTokens     int            // Σ over the decisions that could match a prefix
	// MatchedTokens is Σ of what the picked pods held of the prompts, MeanTokens
	// the same for the mean over all eligible pods of each decision.
	MatchedTokens, MeanTokens float64
	EngineCached              int // Σ of the engines' own cached tokens
	EngineUnknown             int // decisions whose engine did not tell
	Relaxed, Refused          int
	Identical                 int    // decisions whose replay is identical
	Difference                string // the first that is not
	Ledger                    int    // requests still in flight at the end
}

// NewSummary begins a summary with what the clients saw.
func NewSummary(r *Result) *Summary {
	return &Summary{
		Requests: r.Sent, Errors: r.Failed, FirstFailure: r.FirstFailure, Elapsed: r.Elapsed, Wall: r.Wall, Picks: map[string]int{},
	}
}

// Add takes in one record of the run: it is replayed, and counted.
func (s *Summary) Add(rec *explain.Record) {
	s.Decisions++
	if rec.Result.Relaxed {
		s.Relaxed++
	}
	verdict, _, _ := explain.Replay(rec)
	if verdict.Identical {
		s.Identical++
	} else if s.Difference == "" {
		s.Difference = rec.DecisionID + ": " + verdict.Difference
	}
	if rec.Result.Refused != "" {
		s.Refused++
		return
	}
	s.Picks[rec.Result.Pod]++
	if rec.Outcome.CachedTokens != nil {
		s.EngineCached += *rec.Outcome.CachedTokens
	} else {
		s.EngineUnknown++
	}
	s.addMatches(rec)
}

func (s *Summary) addMatches(rec *explain.Record) {
	if rec.Request.NoPrefix != "" {
		return
	}
	s.PromptTokens += rec.Request.PromptTokens
	sum, eligible := 0.0, 0
	for i := range rec.Candidates {
		c := &rec.Candidates[i]
		if c.Reason != "" {
			continue
		}
		eligible++
		if c.Cache.Value == nil {
			continue
		}
		tokens := *c.Cache.Value * float64(rec.Request.BlockSize)
		sum += tokens
		if i == rec.Result.Index {
			s.MatchedTokens += tokens
		}
	}
	if eligible > 0 {
		s.MeanTokens += sum / float64(eligible)
	}
}

// Ratio is the token-weighted cache ratio of the picks, and Mean that of the
// mean eligible pod of the same decisions; 0 when no prompt was matched.
func (s *Summary) Ratio() (picks, mean float64) {
	if s.PromptTokens == 0 {
		return 0, 0
	}
	return s.MatchedTokens / float64(s.PromptTokens), s.MeanTokens / float64(s.PromptTokens)
}

// Write prints the summary for people.
func (s *Summary) Write(w io.Writer) error {
	picks, mean := s.Ratio()
	times := ""
	if mean > 0 {
		times = fmt.Sprintf(" (%.1f times as much)", picks/mean)
	}
	var pods []string
	for _, pod := range slices.Sorted(maps.Keys(s.Picks)) {
		pods = append(pods, fmt.Sprintf("%s %d", pod, s.Picks[pod]))
	}
	replays := fmt.Sprintf("identical, %d of %d decisions", s.Identical, s.Decisions)
	if s.Difference != "" {
		replays = fmt.Sprintf("DIFFERENT, %d of %d decisions; the first: %s", s.Decisions-s.Identical, s.Decisions, s.Difference)
	}
	errs := fmt.Sprint(s.Errors)
	if s.FirstFailure != "" {
		errs += "; the first: " + s.FirstFailure
	}
	unknown := ""
	if s.EngineUnknown > 0 {
		unknown = fmt.Sprintf("; %d requests not told", s.EngineUnknown)
	}
	_, err := fmt.Fprintf(w, `requests       %d in %s of the fleet's time, %s of the wall's
errors         %s
refused        %d decisions
picks          %s
cache ratio    %.4f of the prompt tokens on the picked pods
               %.4f on the mean eligible pod of the same decisions%s
engine cached  %d of %d prompt tokens%s
relaxed        %d decisions
replays        %s
ledger         %d in flight
`, s.Requests, s.Elapsed.Round(time.Second), s.Wall.Round(time.Second), errs, s.Refused, strings.Join(pods, ", "),
		picks, mean, times, s.EngineCached, s.PromptTokens, unknown, s.Relaxed, replays, s.Ledger)
	return err
}
