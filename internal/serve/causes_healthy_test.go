package serve

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// unremarkable are the causes that healthy traffic may have.
var unremarkable = []string{explain.CauseAsDesigned, explain.CauseNoReuse, explain.CauseTieRandom}

// chatting is how long the healthy traffic goes on, by the fleet's clock.
const chatting = 10 * time.Minute

// chat has conversations until the time is over, each with as many turns as the user
// likes, and thinks between them. It returns how many requests there were.
func (r *rig) chat(user int, model string, until time.Time) (requests int) {
	const turns, think = 8, 2 * time.Second
	_ = r.server.clock.Sleep(r.ctx, time.Duration(user)*time.Second) // they come one after another
	for n := 0; ; n++ {
		c := r.talk()
		for turn := range 2 + (n+user)%turns {
			if !r.server.clock.Now().Before(until) {
				return requests
			}
			body := c.next()
			body["model"] = model
			c.messages[len(c.messages)-1]["content"] = words(fmt.Sprint(string(rune('a'+user)), n), questionTokens) + fmt.Sprint(turn)
			a := r.send(r.ctx, fmt.Sprintf("user-%d-%d-%d", user, n, turn), chatPath, body)
			if a.err != nil || a.status != http.StatusOK {
				r.t.Errorf("user %d: status %d, error %v: %s", user, a.status, a.err, a.body)
				return requests
			}
			requests++
			c.messages = append(c.messages, object{"role": "assistant", "content": a.text()})
			if r.server.clock.Sleep(r.ctx, think) != nil {
				return requests
			}
		}
	}
}

// Ten minutes of conversations, with adapters and without, on a fleet that has room
// for them: nothing is remarkable, but that each adapter has to be loaded once.
func TestHealthyTrafficHasNoOtherCauses(t *testing.T) {
	t.Parallel()
	const users = 6
	opts := serveOptions(4)
	opts.Sim.Speed, opts.Sim.Events, opts.Sim.Blocks = 30, true, 1<<16
	opts.Sim.Adapters, opts.Sim.MaxAdapters = []vllm.Adapter{{Name: "legal"}, {Name: "sql"}}, 4
	r := start(t, opts)
	models := []string{r.model, "legal", "sql"}
	for i, model := range models[1:] {
		for n, want := range []string{explain.CauseAdapterAbsent, explain.CauseAsDesigned} {
			body := r.completion(words(fmt.Sprint("w", i), 64), 1)
			body["model"] = model
			id := fmt.Sprint("warm-", i, "-", n)
			r.ask(id, completionsPath, body)
			r.applied()
			r.quiet()
			r.because(id, want)
		}
	}

	requests := make([]int, users)
	var chats sync.WaitGroup
	until := r.server.clock.Now().Add(chatting)
	for user := range users {
		chats.Go(func() { requests[user] = r.chat(user, models[user%len(models)], until) })
	}
	chats.Wait()
	r.inFlight(0)

	sent := 0
	for _, n := range requests {
		sent += n
	}
	r.healthy(sent)
}

// healthy looks at all conversations, which had so many requests.
func (r *rig) healthy(sent int) {
	r.t.Helper()
	counts := map[string]int{}
	all := r.decisions()
	seen := 0
	for _, rec := range all {
		if rec.Request.Path != chatPath {
			continue
		}
		alike := explain.NewAlike(rec)
		for _, other := range all {
			alike.See(other)
		}
		report := explain.Explain(rec, explain.Options{Earlier: alike.Records()})
		seen++
		counts[report.Cause]++
		for _, n := range report.Notes {
			if !slices.Contains(unremarkable, n.Cause) {
				r.t.Errorf("%s: %s: %s", rec.RequestID, n.Cause, n.Text)
			}
		}
	}
	r.t.Logf("causes: %v", counts)
	if as := counts[explain.CauseAsDesigned]; seen != sent || as < sent*9/10 || sent < 100 { // a busy machine sends fewer
		r.t.Errorf("%d requests of which %d are recorded, %d as designed", sent, seen, as)
	}
}
