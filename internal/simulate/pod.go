package simulate

import (
	"time"

	"github.com/eppctl/eppctl/internal/sim/status"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// A pod is a place in the fleet with the engine that runs there now.
type pod struct {
	Pod
	index   int
	engine  *vllm.Engine // nil: it is down
	cfg     vllm.Config
	life    uint64 // how often it was started
	slow    float64
	jobs    map[*job]struct{} // that are there
	usage   status.Usage
	meter   status.Meter
	batches []vllm.Batch // KV events on their way, oldest first
	tally   podTally
}

// podTally is what a pod has done, over its lives.
type podTally struct {
	requests, queueMax            int
	input, cached                 int           // tokens of prompts
	busy                          time.Duration // of lives that have ended
	generated, preemptions, loads int
}

// start gives the pod a new engine with an empty cache. Times of the engine are
// those of the fleet.
func (p *pod) start(now time.Duration) error {
	e, err := vllm.New(p.cfg)
	if err != nil {
		return err
	}
	e.SetSlow(p.slow)
	p.engine, p.usage, p.meter = e, status.Usage{}, status.Meter{}
	p.usage.Read(now, 0)
	p.meter.Read(now, 0)
	p.life++
	return nil
}

// stop ends the engine's life.
func (p *pod) stop(now time.Duration) {
	p.tally.add(p.engine.Stats(now).Totals)
	p.engine, p.batches = nil, nil
}

// add adds up what an engine has done in its life.
func (t *podTally) add(s vllm.Totals) {
	t.busy += s.Busy
	t.generated += s.Generated
	t.preemptions += s.Preemptions
	t.loads += s.AdapterLoads
}

// look notes the length of the queue.
func (p *pod) look() {
	if _, waiting := p.engine.Load(); waiting > p.tally.queueMax {
		p.tally.queueMax = waiting
	}
}
