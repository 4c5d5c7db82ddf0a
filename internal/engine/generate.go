package engine

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"time"
)

// newGenerate is the request for one token. It has connections of its own, and
// closes them: it is seldom sent, and may hang.
func (w *watch) newGenerate() *query {
	transport := w.cfg.Transport
	if transport == nil {
		t := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeaderBytes}
		w.askers = append(w.askers, t)
		transport = t
	}
	q := newQuery(transport, w.target.BaseURL, "/v1/completions", w.cfg.GenerateTimeout)
	if q.req != nil {
		q.req.Method = http.MethodPost
		q.req.Header.Set("Accept", "application/json")
		q.req.Header.Set("Content-Type", "application/json")
	}
	return q
}

// learnModel notes a base model of the list. The caller holds mu.
func (w *watch) learnModel(models []Model) {
	for _, m := range models {
		if m.Parent == "" {
			w.model = m.ID
			return
		}
	}
}

// generateLoop asks for one token now and then, which shows that the engine still
// computes: its front end may answer when that has come to a stop.
func (w *watch) generateLoop(ctx context.Context) {
	pause := time.Duration(float64(w.cfg.GenerateInterval) * rand.Float64()) // not all at once
	for {
		_ = w.cfg.Clock.Sleep(ctx, w.onStep(pause))
		if !w.tokens.enter(ctx) {
			return
		}
		pause = jittered(w.cfg.GenerateInterval)
		p, told := w.generateOne(ctx)
		w.tokens.leave()
		if told {
			w.deliver(ctx, func() { w.sink.Generated(w.target, p) })
			if !p.Healthy {
				pause /= 3
			}
		}
	}
}

// generateOne reports whether there is anything to tell: not before the server has
// listed a model, and not when it does not do such a thing (a status of 4xx).
func (w *watch) generateOne(ctx context.Context) (Probe, bool) {
	w.mu.Lock()
	model := w.model
	w.mu.Unlock()
	if model == "" {
		return Probe{}, false
	}
	// One token, which fills no block of anybody's cache.
	body, err := json.Marshal(map[string]any{"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0})
	if err != nil {
		return Probe{}, false
	}
	w.generate.body = body
	f := asFailure(w.generate.do(ctx, func(r *http.Response) error {
		discard(r.Body)
		return nil
	}))
	if f != nil && (f.kind == failedHere || f.status/100 == 4) {
		return Probe{}, false
	}
	return probeOf(f, w.cfg.Clock.Now()), true
}
