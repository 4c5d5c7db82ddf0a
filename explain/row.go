package explain

import (
	"time"

	"github.com/eppctl/eppctl/score"
)

// Row is a decision in one line, as 'eppctl decisions' and the dashboard's feed
// list it.
type Row struct {
	Time       time.Time `json:"time"`
	RequestID  string    `json:"requestID"`
	DecisionID string    `json:"decisionID"`
	Model      string    `json:"model"`
	Tokens     *int      `json:"promptTokens"` // null when another picker's log does not tell
	Policy     string    `json:"policy"`
	Picked     string    `json:"picked"` // "" when refused
	Score      *float64  `json:"score"`  // null when refused
	Margin     *float64  `json:"margin"` // null without a runner-up
	// DecidedBy is a factor, tieLoad, tieQueue, tieSeed or onlyCandidate; or the
	// policy that picked in place of the scores, which has no margin.
	DecidedBy string `json:"decidedBy"`
	// Over is the runner-up's pod, "" when there was none.
	Over string `json:"over"`
	// Took is the picker's time for it, in seconds of wall time.
	Took float64 `json:"tookSeconds"`
	// Refused is saturated or no-endpoint; "" when a pod was picked.
	Refused         string   `json:"refused,omitempty"`
	State           string   `json:"state"`  // pending, done, unknown
	Status          *int     `json:"status"` // HTTP status; null when not known, or not how it ended
	TTFTSeconds     *float64 `json:"ttftSeconds"`
	PredictedCached *int     `json:"predictedCachedTokens"`
	CachedTokens    *int     `json:"cachedTokens"`
	Flags           []string `json:"flags"` // see the Flag… constants
	// Picker and Profile say which other picker decided; "" for this one.
	Picker  string `json:"picker,omitempty"`
	Profile string `json:"profile,omitempty"`
}

// The flags of a row.
const (
	FlagTie     = "TIE"     // the best score was not the only one of its kind
	FlagStale   = "STALE"   // the engine had fewer cached tokens than predicted
	FlagRelaxed = "RELAXED" // every queue was full
	FlagRetry   = "RETRY"   // it took more than one attempt
	FlagMoved   = "MOVED"   // the gateway in front had another pod serve
	FlagRefused = "REFUSED" // 429 or 503
	FlagCut     = "CUT"     // the answer had begun well and did not come to its end
)

// firstError is the lowest HTTP status that is an error.
const firstError = 400

// Summarize makes the row of a record. It does not replay it.
func Summarize(rec *Record) Row {
	result := &rec.Result
	outcome := outcomeOf(rec)
	row := Row{
		Time: rec.Time, RequestID: rec.RequestID, DecisionID: rec.DecisionID,
		Model: rec.Request.Model, Tokens: rec.promptTokens(), Policy: rec.Policy,
		Picked: result.Pod, Margin: finite(result.Margin), DecidedBy: result.DecidedBy, Refused: result.Refused,
		Took: rec.Timings.Total, State: outcome.State, Status: outcome.Status, TTFTSeconds: outcome.TTFTSeconds,
		PredictedCached: outcome.PredictedCachedTokens, CachedTokens: outcome.CachedTokens,
		Flags: flagsOf(rec),
	}
	if rec.Origin != nil {
		row.Picker, row.Profile = rec.Origin.Kind, rec.Origin.Profile
	}
	if row.State == OutcomeUnknown && row.Status != nil && *row.Status < firstError {
		row.Status = nil // the headers promised well, and nobody saw the end
	}
	if result.Refused == "" {
		row.Score = finite(&result.Score)
	}
	if !byScores(rec.Policy) {
		row.DecidedBy, row.Margin = rec.Policy, nil
	}
	if len(result.Order) > 1 && row.Margin != nil {
		if second := result.Order[1]; second >= 0 && second < len(rec.Candidates) {
			row.Over = rec.Candidates[second].Pod
		}
	}
	return row
}

func flagsOf(rec *Record) []string {
	flags := []string{}
	add := func(flag string, set bool) {
		if set {
			flags = append(flags, flag)
		}
	}
	by := ""
	if byScores(rec.Policy) {
		by = rec.Result.DecidedBy
	}
	add(FlagRefused, rec.Result.Refused != "")
	add(FlagTie, by == score.ByTieLoad.Name(nil) || by == score.ByTieQueue.Name(nil) || by == score.ByTieSeed.Name(nil))
	add(FlagRelaxed, rec.Result.Relaxed)
	add(FlagMoved, movedByGateway(rec.Attempts))
	add(FlagRetry, len(rec.Attempts) > 1 && !movedByGateway(rec.Attempts) || rec.Outcome.Attempts != nil && *rec.Outcome.Attempts > 1)
	add(FlagCut, rec.Outcome.Error != "" && rec.Outcome.Status > 0 && rec.Outcome.Status < 400)
	add(FlagStale, cacheOutcome(rec) == CacheStale)
	return flags
}
