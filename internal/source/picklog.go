package source

import (
	"bytes"
	"container/list"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/telemetry"
)

// maxOpen bounds how many decisions may wait for the line that tells their end.
const maxOpen = 4096

// pickLog reads the log of our own picker. At DEBUG, "scoring complete" holds the
// record of a decision, and "request completed" tells how it ended.
type pickLog struct {
	id string // of the request that is looked for; "" = none

	lines   int // of the log
	records int
	picks   int    // that were logged, with or without their record
	trace   string // what a log without records tells of the request

	open  map[string][]*list.Element // by request ID, oldest first
	queue list.List                  // of *explain.Record, oldest first
}

// event is a line of the log.
type event struct {
	Level       string          `json:"level"`
	Msg         string          `json:"msg"`
	RequestID   string          `json:"requestID"`
	DecisionID  string          `json:"decisionID"`
	SelectedPod string          `json:"selectedPod"`
	Reason      string          `json:"reason"`
	Record      json.RawMessage `json:"record"`

	Status         int      `json:"status"`
	Error          string   `json:"error"`
	ServedEndpoint string   `json:"servedEndpoint"`
	Attempts       *int     `json:"attempts"`
	OutcomeUnknown string   `json:"outcomeUnknown"`
	Flags          string   `json:"flags"`
	CodeDetails    string   `json:"codeDetails"`
	TTFTMs         *float64 `json:"ttftMs"`
	DurationMs     *float64 `json:"durationMs"`
	PromptTokens   *int     `json:"promptTokens"`
	CachedTokens   *int     `json:"cachedTokens"`
	OutputTokens   *int     `json:"outputTokens"`
}

// looks reports whether a body is a line of the log: slog writes time, level and
// message first.
func (*pickLog) looks(body []byte) bool {
	head := body[:min(len(body), 256)]
	return bytes.HasPrefix(head, []byte(`{"time":"`)) && bytes.Contains(head, []byte(`,"level":"`)) && bytes.Contains(head, []byte(`,"msg":"`))
}

// line takes a line and returns the decisions that are complete with it.
func (p *pickLog) line(body []byte) ([]*explain.Record, error) {
	p.lines++
	if !mentions(body, telemetry.MsgScoringComplete, telemetry.MsgRequestCompleted, telemetry.MsgPodSelected, telemetry.MsgRequestRefused) {
		return nil, nil
	}
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, fmt.Errorf("a line of the picker's log that can't be read, cut off perhaps: %w", err)
	}
	switch e.Msg {
	case telemetry.MsgScoringComplete:
		return p.scored(&e)
	case telemetry.MsgRequestCompleted:
		return p.completed(&e), nil
	case telemetry.MsgPodSelected:
		p.pick(&e, "it went to "+e.SelectedPod)
	case telemetry.MsgRequestRefused:
		p.pick(&e, "it was refused: "+e.Reason)
	}
	return nil, nil
}

// mentions is a quick look for one of the messages.
func mentions(body []byte, messages ...string) bool {
	head := body[:min(len(body), 256)]
	for _, msg := range messages {
		if bytes.Contains(head, []byte(`"msg":"`+msg+`"`)) {
			return true
		}
	}
	return false
}

func (p *pickLog) pick(e *event, how string) {
	p.picks++
	if p.id != "" && (e.RequestID == p.id || e.DecisionID == p.id) {
		p.trace = how
	}
}

func (p *pickLog) scored(e *event) ([]*explain.Record, error) {
	if len(e.Record) == 0 {
		return nil, errors.New("a line of the picker's log without the record of the decision")
	}
	rec, err := record.Decode(record.Line{Text: e.Record, Whole: true})
	if err != nil {
		return nil, errors.Unwrap(err) // its line is counted within the record
	}
	p.records++
	if p.open == nil {
		p.open = map[string][]*list.Element{}
	}
	p.open[rec.RequestID] = append(p.open[rec.RequestID], p.queue.PushBack(rec))
	if p.queue.Len() > maxOpen {
		return []*explain.Record{p.untold(p.queue.Front())}, nil
	}
	return nil, nil
}

// completed joins an outcome to its decision: the first with that request ID that
// went to that pod and has none.
func (p *pickLog) completed(e *event) []*explain.Record {
	for _, el := range p.open[e.RequestID] {
		rec := el.Value.(*explain.Record)
		if rec.Result.Pod != e.SelectedPod {
			continue
		}
		p.take(el)
		e.outcome(&rec.Outcome)
		return []*explain.Record{rec}
	}
	return nil
}

// outcome fills in what the line tells.
func (e *event) outcome(o *explain.Outcome) {
	o.State, o.Detail = explain.OutcomeDone, e.OutcomeUnknown
	if o.Detail != "" {
		o.State = explain.OutcomeUnknown
	}
	o.Status, o.Error, o.ServedEndpoint = e.Status, e.Error, e.ServedEndpoint
	o.Attempts, o.Flags, o.CodeDetails = e.Attempts, e.Flags, e.CodeDetails
	o.PromptTokens, o.CachedTokens, o.OutputTokens = e.PromptTokens, e.CachedTokens, e.OutputTokens
	o.TTFTSeconds, o.DurationSeconds = inSeconds(e.TTFTMs), inSeconds(e.DurationMs)
}

func inSeconds(ms *float64) *float64 {
	if ms == nil {
		return nil
	}
	return new(*ms * time.Millisecond.Seconds())
}

func (p *pickLog) take(el *list.Element) {
	rec := p.queue.Remove(el).(*explain.Record)
	left := p.open[rec.RequestID]
	for i := range left {
		if left[i] == el {
			left = append(left[:i], left[i+1:]...)
			break
		}
	}
	if p.open[rec.RequestID] = left; len(left) == 0 {
		delete(p.open, rec.RequestID)
	}
}

// untold takes a decision whose end the log does not tell.
func (p *pickLog) untold(el *list.Element) *explain.Record {
	p.take(el)
	rec := el.Value.(*explain.Record)
	rec.Outcome.State, rec.Outcome.Detail = explain.OutcomeUnknown, "the log does not tell how it ended"
	return rec
}

// close returns the decisions that are left.
func (p *pickLog) close() (left []*explain.Record) {
	for p.queue.Len() > 0 {
		left = append(left, p.untold(p.queue.Front()))
	}
	return left
}

// level says what a log without records was written at, nil when that is no reason.
func (p *pickLog) level(name string) *LevelError {
	if p.picks == 0 || p.records > 0 {
		return nil
	}
	return &LevelError{
		Name: name, Level: "level info", Needed: "debug",
		How: "start the picker with --log-level debug or EPPCTL_LOG_LEVEL=debug, or ask it for its records: 'eppctl explain REQUEST --server ADDRESS'",
	}
}
