package picker

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

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
	scratch     *scratch // of a decision that is not recorded yet
	id, model   string
	servedAs    string // the engines' name of what was asked for
	decisionID  [16]byte
	arrival     time.Time

	pod, endpoint       string
	secondPod, secondAt string // the second best, for a gateway's one retry
	maxQueue            int    // 0 = the cutoff was relaxed
	predicted           int
	retried             bool    // another pod than the prediction was made for took it
	tokensFrom          string  // where the ids came from, when the engine's count can be compared
	tokens              int     // how many there were
	matched             float64 // cache match ratio of the pick, for metrics
	score               float64
	fallbacks           []fallback
	attempts            []explain.Attempt

	gone, evicted   bool // LetGo was called, and what it learned
	answered, ended atomic.Bool
	told            atomic.Bool             // who served
	served          atomic.Pointer[serving] // and who it was
	firstByte       atomic.Int64            // nanoseconds after arrival, 0 = none yet
	looked          time.Time               // the engine had looked into its cache; set by Done
}

// fallback is an endpoint that a gateway in front may go on to.
type fallback struct {
	endpoint string
	score    float64
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
	k.score = s.dec.Results[s.picked].Score
	wanted := s.entry.Fallbacks
	if wanted > 0 {
		k.fallbacks = make([]fallback, 0, min(wanted, len(s.dec.Order)))
	}
	for _, r := range s.dec.Order {
		if r.Pod == s.picked {
			continue
		}
		pod := &s.in.Pods[r.Pod]
		if k.secondPod == "" {
			k.secondPod, k.secondAt = pod.Pod, pod.Endpoint
		}
		if len(k.fallbacks) >= wanted {
			break
		}
		k.fallbacks = append(k.fallbacks, fallback{pod.Endpoint, s.dec.Results[r.Pod].Score})
	}
}

// Record records the decision and tells the observer, if that has not been done.
// Only one goroutine at a time may call it or Done.
func (k *Pick) Record() {
	if s := k.scratch; s != nil {
		k.scratch = nil
		k.handle = k.picker.record(s)
	}
}

// RequestID is the request's ID.
func (k *Pick) RequestID() string { return k.id }

// Model is the base model that serves the request.
func (k *Pick) Model() string { return k.model }

// Served is the name that the engines know the request's model or adapter by: what
// its body has to say. It is "" for a request that names none.
func (k *Pick) Served() string { return k.servedAs }

// Pod is the name of the pod that was picked.
func (k *Pick) Pod() string { return k.pod }

// Endpoint is the host:port to send the request to.
func (k *Pick) Endpoint() string { return k.endpoint }

// DecisionID names the decision, in the spelling of a UUID.
func (k *Pick) DecisionID() string { return uuid.UUID(k.decisionID).String() }

// Endpoints is the picked endpoint and the fallbacks that were asked for behind
// it: eligible pods in the order of their scores, as many as there are.
func (k *Pick) Endpoints() []string {
	out := make([]string, 1, 1+len(k.fallbacks))
	out[0] = k.endpoint
	for i := range k.fallbacks {
		out = append(out, k.fallbacks[i].endpoint)
	}
	return out
}

// Scores are the composite scores of [Pick.Endpoints], one each, always finite.
// With another policy than scores they are what the scores would say: the picked
// endpoint's need not be the highest then.
func (k *Pick) Scores() []float64 {
	out := make([]float64, 1, 1+len(k.fallbacks))
	out[0] = finite(k.score)
	for i := range k.fallbacks {
		out = append(out, finite(k.fallbacks[i].score))
	}
	return out
}

// finite is v, or 0 for what is no number to compare with.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// Predicted is the number of prompt tokens that the pod should find in its
// cache; −1 when nothing can be said, as when another pod has served.
func (k *Pick) Predicted() int {
	if k.elsewhere() {
		return -1
	}
	return k.predicted
}

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
	k.retried = true
	return true
}

// Answered says that response headers have arrived, with that status: the pod has
// taken the request up. Further calls do nothing. Where another pod than the picked
// one may have served, [Pick.ServedBy] comes first.
func (k *Pick) Answered(status int) {
	if !k.answered.CompareAndSwap(false, true) {
		return
	}
	k.reservation.Answered()
	if status >= 200 && status <= 299 {
		k.reservation.Stored()
	}
}

// LetGo gives the reservation back before the request's end is known: a pod that
// has begun to answer would stay reserved for as long as nobody tells it.
// It may be called once, and not at the same time as Done.
func (k *Pick) LetGo() {
	k.gone, k.evicted = true, k.reservation.Release()
	k.picker.open.Add(-1)
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

	// Unknown is why nobody knows how it went, such as "response not sent to the
	// picker"; "" when that is known. Status is then what the response's headers
	// said, if somebody saw them.
	Unknown string
	// Attempts is how often a gateway in front sent the request; 0 when not told.
	Attempts int
	// Flags and Details are that gateway's own words on the response: Envoy's
	// response flags ("UF,URX") and response code details. What is not printable
	// ASCII is replaced, and what is long is cut.
	Flags, Details string
}

// Done ends the pick: the reservation is released, the record completed, the
// observer told. Only the first call does anything.
func (k *Pick) Done(end End) {
	if !k.ended.CompareAndSwap(false, true) {
		return
	}
	defer func() {
		if !k.gone {
			k.picker.open.Add(-1)
		}
	}()
	k.Record()
	if end.ServedEndpoint != "" {
		k.serve(end.ServedEndpoint)
	}
	o := k.outcome(&end)
	o.Prediction, o.Unsettled = k.foretold(end.CachedTokens)
	if k.Predicted() >= 0 && end.PromptTokens > 0 {
		k.reservation.Correct(end.PromptTokens, end.CachedTokens)
	}
	if end.Error == "" && end.Unknown == "" {
		k.reservation.Ended(end.PromptTokens, end.OutputTokens)
	}
	evicted := k.reservation.Release() || k.evicted
	if k.tokensFrom != "" && end.PromptTokens >= 0 {
		k.picker.cfg.Tokeniser.Told(k.model, k.tokensFrom, k.tokens, end.PromptTokens)
	}
	k.picker.cfg.Recorder.Complete(k.handle, o)
	if k.picker.cfg.Observer != nil {
		k.picker.cfg.Observer.Completed(k, o, k.stale(evicted, end))
	}
	if o.Unsettled {
		k.picker.settle.add(k, o)
	} else {
		k.reservation.Forget()
	}
}

// outcome is what is to be recorded of the end, but for the prediction.
func (k *Pick) outcome(end *End) *record.Outcome {
	o := &record.Outcome{
		Status: end.Status, Error: end.Error, TTFT: -1,
		Duration:     k.picker.cfg.Clock.Now().Sub(k.arrival),
		PromptTokens: end.PromptTokens, CachedTokens: end.CachedTokens, OutputTokens: end.OutputTokens,
		Attempts: k.attempts, Unknown: end.Unknown, Sent: end.Attempts,
		Flags: printable(end.Flags, maxFlags), Details: printable(end.Details, maxDetails),
	}
	k.looked = k.arrival.Add(o.Duration)
	if first := k.firstByte.Load(); first > 0 {
		o.TTFT = time.Duration(first)
		k.looked = k.arrival.Add(o.TTFT)
	}
	if end.Unknown != "" {
		o.Duration = -1 // that it is given up now says nothing of when it ended
	}
	k.credit(o)
	return o
}

// stale reports whether the pod was picked for a cache that it turned out not
// to have: a removal from before the pick arrived after it, or the engine
// counted fewer cached tokens than predicted.
func (k *Pick) stale(evicted bool, end End) bool {
	predicted := k.Predicted()
	if predicted <= 0 {
		return evicted
	}
	return evicted || end.CachedTokens >= 0 && end.CachedTokens < predicted
}
