package telemetry

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// Observer hears of every decision and of every end, counts them and logs them.
type Observer struct {
	metrics *Metrics
	log     *slog.Logger
	render  func(*record.Entry) *explain.Record
}

var _ picker.Observer = (*Observer)(nil)

// NewObserver makes an observer. render makes the full record that DEBUG shows
// and TRACE takes keyed block ids from; nil leaves both out.
func NewObserver(metrics *Metrics, log *slog.Logger, render func(*record.Entry) *explain.Record) *Observer {
	return &Observer{metrics: metrics, log: log, render: render}
}

// Picked implements [picker.Observer].
func (o *Observer) Picked(e *record.Entry) {
	o.metrics.Picked(e)
	if !o.enabled(slog.LevelInfo) {
		return
	}
	if o.enabled(slog.LevelDebug) {
		o.received(e)
		o.scored(e)
	}
	if e.Picked < 0 {
		o.refused(e)
		return
	}
	o.selected(e)
}

// Completed implements [picker.Observer].
func (o *Observer) Completed(p *picker.Pick, outcome *record.Outcome, stale bool) {
	o.ended(ended{p.RequestID(), p.Pod(), p.Predicted()}, outcome, stale)
}

// ended is what is told of a pick that has ended, beside its outcome.
type ended struct {
	requestID, pod string
	predicted      int
}

func (o *Observer) ended(p ended, outcome *record.Outcome, stale bool) {
	o.metrics.Completed(outcome, p.predicted, stale)
	if o.enabled(slog.LevelInfo) {
		o.completed(p, outcome, stale)
	}
}

// ScorerFailed implements [picker.Observer].
func (o *Observer) ScorerFailed(name string, how picker.Failure) {
	o.metrics.ScorerFailed(name, string(how))
	if o.enabled(slog.LevelDebug) {
		o.event(slog.LevelDebug, MsgScorerFailed, slog.String(logkey.Scorer, name), slog.String(logkey.How, string(how)))
	}
}

func (o *Observer) enabled(level slog.Level) bool { return o.log.Enabled(context.Background(), level) }

//nolint:sloglint // the one place that hands messages on; callers pass constants
func (o *Observer) event(level slog.Level, msg string, attrs ...slog.Attr) {
	o.log.LogAttrs(context.Background(), level, msg, attrs...)
}

func (o *Observer) selected(e *record.Entry) {
	pod, result := &e.Inputs.Pods[e.Picked], &e.Decision.Results[e.Picked]
	attrs := append(make([]slog.Attr, 0, 10), ids(e)...)
	attrs = append(attrs,
		slog.String(logkey.SelectedPod, pod.Pod),
		slog.String(logkey.PodIP, host(pod.Endpoint)),
		slog.String(logkey.Endpoint, pod.Endpoint),
		slog.String(logkey.Reason, reason(e)),
		slog.Float64(logkey.CompositeScore, result.Score),
	)
	if result.States[score.CacheMatch].Usable() {
		attrs = append(attrs, slog.Float64(logkey.CacheMatchRatio, result.Values[score.CacheMatch]))
	}
	if e.Decision.Relaxed {
		attrs = append(attrs, slog.Bool(logkey.Relaxed, true))
	}
	o.event(slog.LevelInfo, MsgPodSelected, attrs...)
}

func (o *Observer) refused(e *record.Entry) {
	o.event(slog.LevelInfo, MsgRequestRefused, append(ids(e),
		slog.String(logkey.Reason, e.Decision.Refused.String()),
		slog.Int(logkey.Candidates, len(e.Inputs.Pods)),
	)...)
}

func (o *Observer) completed(p ended, outcome *record.Outcome, stale bool) {
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs, slog.String(logkey.RequestID, p.requestID), slog.String(logkey.SelectedPod, p.pod))
	if outcome.Status >= http.StatusBadRequest || outcome.Status > 0 && outcome.Unknown == "" {
		attrs = append(attrs, slog.Int(logkey.Status, outcome.Status))
	}
	for _, text := range []struct{ key, text string }{
		{logkey.OutcomeUnknown, outcome.Unknown},
		{logkey.Error, outcome.Error},
		{logkey.ServedEndpoint, outcome.ServedEndpoint},
		{logkey.Flags, outcome.Flags},
		{logkey.CodeDetails, outcome.Details},
	} {
		if text.text != "" {
			attrs = append(attrs, slog.String(text.key, text.text)) //nolint:sloglint // a constant of logkey
		}
	}
	if outcome.TTFT >= 0 {
		attrs = append(attrs, slog.Float64(logkey.TTFTMs, micros(outcome.TTFT)/1e3))
	}
	if outcome.Duration >= 0 {
		attrs = append(attrs, slog.Float64(logkey.DurationMs, micros(outcome.Duration)/1e3))
	}
	for _, count := range []struct {
		key string
		n   int
	}{
		{logkey.PromptTokens, outcome.PromptTokens},
		{logkey.CachedTokens, outcome.CachedTokens},
		{logkey.PredictedCachedTokens, p.predicted},
		{logkey.OutputTokens, outcome.OutputTokens},
	} {
		if count.n >= 0 {
			attrs = append(attrs, slog.Int(count.key, count.n)) //nolint:sloglint // a constant of logkey
		}
	}
	switch {
	case outcome.Sent > 0:
		attrs = append(attrs, slog.Int(logkey.Attempts, outcome.Sent))
	case len(outcome.Attempts) > 1:
		attrs = append(attrs, slog.Int(logkey.Attempts, len(outcome.Attempts)))
	}
	if stale {
		attrs = append(attrs, slog.Bool(logkey.StaleRouting, true))
	}
	o.event(slog.LevelInfo, MsgRequestCompleted, attrs...)
}

// ids name a decision; the second tells repeated request IDs apart.
func ids(e *record.Entry) []slog.Attr {
	return []slog.Attr{slog.String(logkey.RequestID, e.RequestID), slog.String(logkey.DecisionID, uuid.UUID(e.DecisionID).String())}
}

// reason is what put the picked pod before the others.
func reason(e *record.Entry) string {
	if e.Policy != "" && e.Policy != explain.PolicyScores {
		return e.Policy
	}
	return e.Decision.DecidedBy.Name(e.Inputs.Weights)
}

// host is an endpoint without its port.
func host(endpoint string) string {
	h, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return endpoint
	}
	return h
}

// maxName is how much of a name that a client sent goes into a log line.
const maxName = 256

// clip bounds a name from the wire.
func clip(name string) string {
	if len(name) <= maxName {
		return name
	}
	n := maxName
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n]
}
