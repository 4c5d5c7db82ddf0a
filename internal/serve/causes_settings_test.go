package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/sim"
	"github.com/eppctl/eppctl/internal/tokens"
)

// A pod that has part of a prompt and a queue: whether it wins is a matter of the
// weights.
func TestCausesOfWeights(t *testing.T) {
	t.Parallel()
	for preset, want := range map[string]struct{ cause, words string }{
		"api-gateway": {explain.CauseWeights, "sim-0 holds 8 of the prompt's 20 blocks and lost; with the weights of most presets it wins"},
		"default":     {explain.CauseAsDesigned, "went to sim-0"},
	} {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			opts := serveOptions(2)
			opts.Config.Preset = preset
			r := start(t, opts)
			const owner, queued = "sim-0", 6
			r.direct(owner, completionsPath, r.completion(words("fi", promptTokens), 1))
			r.direct(owner, completionsPath, r.completion(words("we", part40), 1))
			r.quiet()
			filling := r.fill("fi", owner, queued)
			r.until("it is idle", func() bool { load := r.pods()[owner].Load.Value; return load != nil && *load == 0 })
			asked := r.crowd("we", 1, func(int) object { return r.completion(words("we", promptTokens), 1) })
			r.inFlight(queued + 1)
			r.release()
			filling.allWell(t)
			asked.allWell(t)
			r.inFlight(0)
			r.because("we-0", want.cause, want.words)
		})
	}
}

// Two pods that are equal; then a busy one without a queue, and an idle one whose
// queue grows.
func TestCausesOfTiesAndDeeperQueues(t *testing.T) {
	t.Parallel()
	r := start(t, serveOptions(2))
	r.quiet()
	r.ask("tie", completionsPath, r.completion(words("ti", 32), 1))
	r.because("tie", explain.CauseTieRandom, "so the seed chose one of sim-")
	const busy, idle = "sim-0", "sim-1"
	ctx, hangUp := context.WithCancel(r.ctx)
	defer hangUp()
	stream := r.completion(words("bu", 32), 100_000)
	stream["stream"] = true
	res, err := r.open(ctx, r.pod(busy).URL+completionsPath, "busy", stream)
	r.must(err)
	defer res.Body.Close()
	r.until("it is busy", func() bool { load := r.pods()[busy].Load.Value; return load != nil && *load > .9 })

	r.must(r.fleet.Hold(idle, sim.Everything()))
	const most = 6 // of 20
	running := r.crowd("de", most, func(i int) object { return r.completion(words(string(rune('a'+i)), 32), 1) })
	r.inFlight(most)
	r.release()
	running.allWell(t)
	for i := range most {
		rec := r.completed(fmt.Sprint("de-", i))
		switch c := candidate(t, rec, idle); {
		case rec.Result.Pod != idle:
			t.Errorf("with %d pending on %s the pick was %s", c.Pending, idle, rec.Result.Pod)
		case c.Pending == most-1:
			r.because(rec.RequestID, explain.CauseDeeperQueue, "the deeper queue won", "5 requests against 0 on "+busy)
		default:
			r.because(rec.RequestID, explain.CauseNoReuse)
		}
	}
}

// Ids that were guessed because no server told them in time.
func TestCausesOfGuessedTokens(t *testing.T) {
	t.Parallel()
	opts := ownTokens(tokens.SourceEngine)
	opts.Config.Tokens.TimeoutMs = 2000 // time enough, as long as nothing is slowed down
	r := start(t, opts)
	r.warm("ex")
	r.again("ex")
	r.because("ex-2", explain.CauseAsDesigned)
	r.must(r.fleet.SlowTokenise(sim.AllPods, patience))
	r.warm("gu")
	r.again("gu")
	for _, id := range []string{"gu-1", "gu-2"} {
		report := r.because(id, explain.CauseTokensApproximate, "the token ids were approximate", "the engine counted 321 tokens in the prompt, the picker 320")
		for _, n := range report.Notes {
			if strings.HasPrefix(n.Cause, "evicted") {
				t.Errorf("%s: %s is no eviction: %s", id, n.Cause, n.Text)
			}
		}
	}
	r.must(r.fleet.Recover(sim.AllPods))
}

// Engines whose blocks have 16 tokens, and pickers that count in others.
func TestCausesOfBlockSizes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		size  int
		cause string
		words string
	}{
		{"neither a multiple nor a divisor", 24, explain.CauseBlockSize, "its blocks have 16 tokens, the picker's 24"},
		{"a multiple", 32, explain.CauseAsDesigned, "decided by cacheMatch"},
		{"a divisor", 8, explain.CauseAsDesigned, "decided by cacheMatch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts := serveOptions(2)
			opts.Config.BlockSize = tt.size
			r := start(t, opts)
			r.warm("bl")
			r.again("bl")
			r.because("bl-2", tt.cause, tt.words)
		})
	}
}
