package pool

import (
	"slices"

	"github.com/eppctl/eppctl/score"
)

// Serving is an endpoint that can be asked something beside its requests.
type Serving struct {
	// ID is another one when another process may be behind the URL.
	ID, URL string
	Engine  string // vllm, sglang, trtllm; "" = not known
	Root    string // what the model was loaded from; "" = not known
	// Load is the requests that wait there, as last told, and those given to it.
	Load float64
}

// MostServing bounds the answer of [Pool.Serving].
const MostServing = 32

// Serving lists endpoints that are ready, well, and serve a base model or have not
// said what they serve: at most [MostServing], others with each call.
func (p *Pool) Serving(base string) []Serving {
	first := int(p.turn.Add(MostServing / 2))
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.endpoints)
	list := make([]Serving, 0, min(n, MostServing))
	for i := 0; i < n && len(list) < MostServing; i++ {
		if e := p.endpoints[(first+i)%n]; e.canServe(base) {
			list = append(list, e.serving(base))
		}
	}
	return list
}

func (e *endpoint) canServe(base string) bool {
	return e.base.Excluded == score.Eligible && e.member.URL != "" &&
		(e.base.Health.State != score.Known || e.base.Health.Value >= score.HealthCutoff) &&
		(base == "" || e.models == nil || slices.Contains(e.models, base))
}

func (e *endpoint) serving(base string) Serving {
	s := Serving{ID: e.id, URL: e.member.URL, Engine: e.member.engine(), Load: float64(e.inFlight)}
	if s.Engine == "" {
		s.Engine = e.engine.kind
	}
	if e.waiting.known() {
		s.Load += e.waiting.value
	}
	for _, m := range e.listed {
		if m.Root != "" && m.Parent == "" && (s.Root == "" || m.ID == base) {
			s.Root = m.Root
		}
	}
	return s
}
