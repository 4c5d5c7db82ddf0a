package serve

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/load"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// unremarkable are the causes that healthy traffic may have.
var unremarkable = []string{explain.CauseAsDesigned, explain.CauseNoReuse, explain.CauseTieRandom}

// Ten minutes of conversations, with adapters and without, on a fleet that has room
// for them: nothing is remarkable, but that each adapter has to be loaded once.
func TestHealthyTrafficHasNoOtherCauses(t *testing.T) {
	t.Parallel()
	const minutes, perSecond = 10, 1
	opts := serveOptions(4)
	opts.Sim.Speed, opts.Sim.Events, opts.Sim.Blocks = 60, true, 1<<16
	opts.Sim.Adapters, opts.Sim.MaxAdapters = []vllm.Adapter{{Name: "legal"}, {Name: "sql"}}, 4
	r := start(t, opts)
	models := []string{r.model, "legal", "sql"}
	for i, model := range models {
		for n, want := range []string{explain.CauseAdapterAbsent, explain.CauseAsDesigned} {
			body := r.completion(words(fmt.Sprint("w", i), 64), 1)
			body["model"] = model
			id := fmt.Sprint("warm-", i, "-", n)
			r.ask(id, completionsPath, body)
			r.applied()
			r.quiet()
			if i > 0 {
				r.because(id, want)
			}
		}
	}

	const requests = minutes * 60 * perSecond // of each model
	var running sync.WaitGroup
	for i, model := range models {
		running.Go(func() {
			result, err := load.Run(r.ctx, load.Config{
				Source: load.NewConversations(perSecond, uint64(i)), URL: "http://" + r.at.Gateway, Model: model,
				Clock: r.server.clock, Limit: requests, Drain: patience,
			})
			if err != nil || result.Failed > 0 {
				t.Errorf("%s: %d requests failed (%s), error %v", model, result.Failed, result.FirstFailure, err)
			}
		})
	}
	running.Wait()
	r.inFlight(0)

	counts := map[string]int{}
	all := r.decisions()
	for _, rec := range all {
		if rec.Request.Path != chatPath {
			continue // of the beginning
		}
		alike := explain.NewAlike(rec)
		for _, other := range all {
			alike.See(other)
		}
		report := explain.Explain(rec, explain.Options{Earlier: alike.Records()})
		counts[report.Cause]++
		for _, n := range report.Notes {
			if !slices.Contains(unremarkable, n.Cause) {
				t.Errorf("%s: %s: %s", rec.RequestID, n.Cause, n.Text)
			}
		}
	}
	t.Logf("causes: %v", counts)
	if n := counts[explain.CauseAsDesigned]; n < len(models)*requests*9/10 {
		t.Errorf("only %d of %d requests had something to reuse", n, len(models)*requests)
	}
}
