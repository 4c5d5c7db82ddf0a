package picker

import (
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// Pick is a routed request, from its decision to its end.
type Pick struct {
	picker      *Picker
	reservation pool.Reservation
	handle      record.Handle
	id, model   string
	arrival     time.Time

	pod, endpoint       string
	secondPod, secondAt string // the second best, for a gateway's one retry
	maxQueue            int    // 0 = the cutoff was relaxed
	predicted           int
	matched             float64 // cache match ratio of the pick, for metrics
	attempts            []explain.Attempt

	answered, ended atomic.Bool
	firstByte       atomic.Int64 // nanoseconds after arrival, 0 = none yet
}

// fill takes over what outlives the decision's scratch memory.
func (k *Pick) fill(s *scratch) {
	pod := &s.in.Pods[s.picked]
	k.pod, k.endpoint = pod.Pod, pod.Endpoint
	if !s.dec.Relaxed {
		k.maxQueue = s.in.Weights.MaxQueue
	}
	k.predicted = s.entry.PredictedCached
	k.matched = s.dec.Results[s.picked].Values[score.CacheMatch]
	for _, r := range s.dec.Order {
		if r.Pod != s.picked {
			k.secondPod, k.secondAt = s.in.Pods[r.Pod].Pod, s.in.Pods[r.Pod].Endpoint
			break
		}
	}
}

// RequestID is the request's ID.
func (k *Pick) RequestID() string { return k.id }

// Model is the base model that serves the request.
func (k *Pick) Model() string { return k.model }

// Pod is the name of the pod that was picked.
func (k *Pick) Pod() string { return k.pod }

// Endpoint is the host:port to send the request to.
func (k *Pick) Endpoint() string { return k.endpoint }

// Predicted is the number of prompt tokens that the pod should find in its
// cache; −1 when nothing can be said.
func (k *Pick) Predicted() int { return k.predicted }

// Second moves the pick to the second-best pod after a connection that was
// refused, or failed before a byte was sent. It works once, and only while that
// pod can take the request; both attempts stand in the record.
func (k *Pick) Second(failure string) bool {
	k.picker.cfg.Pool.Refused(k.pod, k.endpoint, failure)
	if k.secondPod == "" || k.attempts != nil || k.ended.Load() {
		return false
	}
	if !k.picker.cfg.Pool.Move(&k.reservation, k.secondPod, k.secondAt, k.maxQueue) {
		return false
	}
	k.attempts = []explain.Attempt{
		{Pod: k.pod, Endpoint: k.endpoint, Error: failure},
		{Pod: k.secondPod, Endpoint: k.secondAt},
	}
	k.pod, k.endpoint = k.secondPod, k.secondAt
	k.predicted = -1 // it was said of the first pod
	return true
}

// Answered says that response headers have arrived: the pod has taken the
// request up. Further calls do nothing.
func (k *Pick) Answered() {
	if k.answered.CompareAndSwap(false, true) {
		k.reservation.Answered()
	}
}

// FirstByte notes the time of the response body's first byte.
func (k *Pick) FirstByte() {
	k.firstByte.CompareAndSwap(0, max(1, int64(k.picker.cfg.Clock.Now().Sub(k.arrival))))
}

// End is how a request went, as far as its gateway knows. Counts are −1 when the
// engine did not tell.
type End struct {
	Status                                   int    // HTTP status sent to the client; 0 = none
	Error                                    string // "" when all went well
	ServedEndpoint                           string // "" when no pod answered
	PromptTokens, CachedTokens, OutputTokens int
}

// Done ends the pick: the reservation is released, the record completed, the
// observer told. Only the first call does anything.
func (k *Pick) Done(end End) {
	if !k.ended.CompareAndSwap(false, true) {
		return
	}
	evicted := k.reservation.Release()
	o := &record.Outcome{
		Status: end.Status, Error: end.Error, ServedEndpoint: end.ServedEndpoint, TTFT: -1,
		Duration:     k.picker.cfg.Clock.Now().Sub(k.arrival),
		PromptTokens: end.PromptTokens, CachedTokens: end.CachedTokens, OutputTokens: end.OutputTokens,
		Attempts: k.attempts,
	}
	if first := k.firstByte.Load(); first > 0 {
		o.TTFT = time.Duration(first)
	}
	k.picker.cfg.Recorder.Complete(k.handle, o)
	if k.picker.cfg.Observer != nil {
		k.picker.cfg.Observer.Completed(k, o, k.stale(evicted, end))
	}
	k.picker.open.Add(-1)
}

// stale reports whether the pod was picked for a cache that it turned out not
// to have: a removal from before the pick arrived after it, or the engine
// counted fewer cached tokens than predicted.
func (k *Pick) stale(evicted bool, end End) bool {
	if k.predicted <= 0 {
		return evicted
	}
	return evicted || end.CachedTokens >= 0 && end.CachedTokens < k.predicted
}
