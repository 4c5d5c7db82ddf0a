package scoretest

import (
	"context"
	"time"

	"github.com/eppctl/eppctl/score"
)

// T is the part of testing.TB that this package needs.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// PodOption changes a pod that [Pod] makes.
type PodOption func(*score.PodState)

// Pod is a candidate that is healthy, idle and knows it: nothing cached, no
// load, no queue, all readings fresh.
func Pod(name string, options ...PodOption) score.PodState {
	p := score.NewPod(name, name+":8000")
	p.Cache = score.Read(0, score.SourceEvents)
	p.Utilization = score.Read(0, score.SourceMetrics)
	p.Waiting = score.Read(0, score.SourceMetrics)
	p.Health = score.Read(1, score.SourceProbe)
	p.AdapterState = score.Known
	for _, option := range options {
		option(&p)
	}
	return p
}

// Cached gives the pod that many blocks of the prompt.
func Cached(blocks int) PodOption {
	return func(p *score.PodState) { p.Cache = score.Read(float64(blocks), score.SourceEvents) }
}

// Loaded sets the pod's utilization, 1 being full.
func Loaded(utilization float64) PodOption {
	return func(p *score.PodState) { p.Utilization = score.Read(utilization, score.SourceMetrics) }
}

// Queued sets the number of requests that wait on the pod.
func Queued(waiting int) PodOption {
	return func(p *score.PodState) { p.Waiting = score.Read(float64(waiting), score.SourceMetrics) }
}

// Healthy sets the pod's health score, 0 to 1.
func Healthy(health float64) PodOption {
	return func(p *score.PodState) { p.Health = score.Read(health, score.SourceProbe) }
}

// Adapters sets the LoRA adapters that are loaded.
func Adapters(names ...string) PodOption {
	return func(p *score.PodState) { p.Adapters = names }
}

// Label adds a label.
func Label(key, value string) PodOption {
	return func(p *score.PodState) { p.Labels = added(p.Labels, key, value) }
}

// Annotation adds an annotation.
func Annotation(key, value string) PodOption {
	return func(p *score.PodState) { p.Annotations = added(p.Annotations, key, value) }
}

func added(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// Blind makes all readings unknown, as they are before the first scrape.
func Blind() PodOption {
	return func(p *score.PodState) {
		p.Cache, p.Utilization, p.Waiting, p.Health = score.Reading{}, score.Reading{}, score.Reading{}, score.Reading{}
		p.AdapterState, p.Adapters = score.Unknown, nil
	}
}

// Stale makes all readings too old to count, but keeps their values.
func Stale(age time.Duration) PodOption {
	return func(p *score.PodState) {
		for _, r := range []*score.Reading{&p.Cache, &p.Utilization, &p.Waiting, &p.Health} {
			r.State, r.Age = score.Stale, age
		}
		p.AdapterState = score.Stale
	}
}

// Excluded gives the pod a reason not to take part.
func Excluded(reason score.Reason) PodOption {
	return func(p *score.PodState) { p.Excluded = reason }
}

// Request is a request whose prompt has that many blocks of 16 tokens.
func Request(blocks int) *score.InferenceRequest {
	const blockSize = 16
	return &score.InferenceRequest{
		ID: "test", Model: "model", Blocks: blocks, Count: blocks * blockSize,
		Tokens: make([]uint32, blocks*blockSize), Arrival: time.Unix(1_764_500_000, 0).UTC(),
	}
}

// Score calls the scorer for each pod, with the summary of them all, as the
// picker does. A panic is reported and makes the result Unknown.
func Score(t T, scorer score.Scorer, req *score.InferenceRequest, pods ...score.PodState) []score.Result {
	t.Helper()
	w := score.Default()
	set := score.Summarize(req, pods, &w)
	results := make([]score.Result, len(pods))
	for i := range pods {
		results[i] = guarded(t, scorer, call{context.Background(), req, &pods[i], &set})
	}
	return results
}

// call holds the arguments of one call of a scorer.
type call struct {
	ctx context.Context
	req *score.InferenceRequest
	pod *score.PodState
	set *score.Summary
}

func guarded(t T, scorer score.Scorer, c call) (r score.Result) {
	t.Helper()
	defer func() {
		if cause := recover(); cause != nil {
			t.Errorf("pod %s: the scorer panics: %v", c.pod.Pod, cause)
			r = score.NotKnown("panic")
		}
	}()
	return scorer.Score(c.ctx, c.req, c.pod, c.set)
}
