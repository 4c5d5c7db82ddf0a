package fleet

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// maxModel is how much of a model's name a row shows, as a record does.
const maxModel = 255

// picked is of a decision what its row needs: little to copy, while the request
// waits. The row is made of it by whoever reads it.
type picked struct {
	decisionID, requestID string
	model, policy         string
	arrival               time.Time
	tokens                int
	pod, endpoint, over   string
	score, margin         float64
	by                    score.DecidedBy
	weights               *score.Weights // never changed
	refused               score.Refusal
	second, relaxed       bool
	predicted             int
	took                  time.Duration
}

func pickedOf(e *record.Entry) *picked {
	d, req := e.Decision, e.Inputs.Request
	p := &picked{
		decisionID: uuid.UUID(e.DecisionID).String(), requestID: e.RequestID, model: e.Model, policy: e.Policy,
		arrival: req.Arrival, tokens: req.Count, by: d.DecidedBy, weights: e.Inputs.Weights, refused: d.Refused, relaxed: d.Relaxed,
		predicted: e.PredictedCached, took: e.Timings.Total, second: d.RunnerUp >= 0, margin: d.Margin,
	}
	if len(p.model) > maxModel {
		p.model = strings.ToValidUTF8(strings.Clone(p.model[:maxModel]), "")
	}
	if e.Picked >= 0 {
		pod := &e.Inputs.Pods[e.Picked]
		p.pod, p.endpoint, p.score = pod.Pod, pod.Endpoint, d.Results[e.Picked].Score
	}
	if len(d.Order) > 1 {
		p.over = e.Inputs.Pods[d.Order[1].Pod].Pod
	}
	return p
}

// row is the decision in one line; o is nil while its request runs. The decision is
// summed up as its record would be.
func (p *picked) row(o *record.Outcome) explain.Row {
	rec := explain.Record{
		Time: p.arrival.Round(0).UTC(), RequestID: p.requestID, DecisionID: p.decisionID, Policy: p.policy,
		Request: explain.Request{Model: p.model, PromptTokens: p.tokens},
		Timings: explain.Timings{Total: p.took.Round(10 * time.Nanosecond).Seconds()},
		Result: explain.Result{
			Pod: p.pod, Endpoint: p.endpoint, Score: p.score, DecidedBy: p.by.Name(p.weights),
			Relaxed: p.relaxed, Refused: p.refused.String(),
		},
		Outcome: explain.Outcome{State: explain.OutcomePending, PredictedCached: countOrNull(p.predicted)},
	}
	if p.second {
		rec.Result.Margin, rec.Result.Order = &p.margin, []int{0, 1}
		rec.Candidates = []explain.Candidate{{Pod: p.pod}, {Pod: p.over}}
	}
	if o == nil && p.refused != score.Picked {
		o = refusalOf(p.refused)
	}
	if o != nil {
		tell(&rec, o)
	}
	return explain.Summarize(&rec)
}

// refusalOf is how a refused request ends: at once.
func refusalOf(r score.Refusal) *record.Outcome {
	o := &record.Outcome{Status: http.StatusServiceUnavailable, TTFT: -1, Duration: -1, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1}
	if r == score.Saturated {
		o.Status = http.StatusTooManyRequests
	}
	o.Error = r.String()
	return o
}

// tell puts the outcome into a record.
func tell(rec *explain.Record, o *record.Outcome) {
	out := &rec.Outcome
	out.State, out.Detail = explain.OutcomeDone, o.Unknown
	if o.Unknown != "" {
		out.State = explain.OutcomeUnknown
	}
	out.Status, out.Error, out.ServedEndpoint = o.Status, o.Error, o.ServedEndpoint
	if o.TTFT >= 0 {
		out.TTFTSeconds = new(o.TTFT.Seconds())
	}
	out.CachedTokens = countOrNull(o.CachedTokens)
	if o.Sent > 0 {
		out.Attempts = new(o.Sent)
	}
	rec.Attempts = o.Attempts
}

// countOrNull is a count that is null when it is negative.
func countOrNull(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

// line is a row for all readers. It becomes text when the first of them reads it.
type line struct {
	picked  *picked
	outcome *record.Outcome

	once sync.Once
	text []byte
}

// encoded is the row as a line of JSON.
func (l *line) encoded() []byte {
	l.once.Do(func() {
		l.text = encodeLine(struct {
			Decision explain.Row `json:"decision"`
		}{l.picked.row(l.outcome)})
	})
	return l.text
}

// encodeLine is a value as one line of JSON; nil when it has none, which no
// snapshot and no row is.
func encodeLine(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return nil
	}
	return b.Bytes()
}
