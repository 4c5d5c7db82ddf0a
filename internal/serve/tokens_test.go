package serve

import (
	"fmt"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/sim"
	"github.com/eppctl/eppctl/internal/tokens"
)

// ownTokens are the options of a fleet whose ids are not the approximate ones.
func ownTokens(source tokens.Source) Options {
	o := serveOptions(4)
	o.Sim.OwnTokens = true
	o.Config.Tokens.Source = string(source)
	o.Config.Tokens.TimeoutMs = float64(patience.Milliseconds()) // of a slow machine
	return o
}

// With the engines' own ids a conversation finds its cache, and the prediction is
// the engine's count.
func TestEnginesOwnTokens(t *testing.T) {
	for _, path := range []string{chatPath, completionsPath} {
		t.Run(path, func(t *testing.T) {
			r := start(t, ownTokens(tokens.SourceEngine))
			pod := ""
			c := r.talk()
			for turn := range 4 {
				body := c.next()
				if path == completionsPath {
					body = r.completion(fmt.Sprint(words("p", 640), turn), 8)
				}
				a, rec := r.ask(fmt.Sprint("turn-", turn), path, body)
				replayed(t, rec)
				if rec.Request.TokensFrom != tokens.FromEngine || rec.Timings.Tokens == nil || *rec.Timings.Tokens <= 0 {
					t.Fatalf("turn %d: ids from %s, timings %+v", turn, rec.Request.TokensFrom, rec.Timings)
				}
				if got := countOf(t, "engine's count", rec.Outcome.PromptTokens); got != rec.Request.PromptTokens {
					t.Errorf("turn %d: %d tokens, the engine counts %d", turn, rec.Request.PromptTokens, got)
				}
				predicted := countOf(t, "prediction", rec.Outcome.PredictedCached)
				if cached := countOf(t, "engine's count", rec.Outcome.CachedTokens); cached != predicted || turn > 0 && cached == 0 {
					t.Errorf("turn %d: %d cached tokens predicted, %d found", turn, predicted, cached)
				}
				if turn > 0 && rec.Result.Pod != pod {
					t.Errorf("turn %d went to %s, the cache is at %s", turn, rec.Result.Pod, pod)
				}
				pod = rec.Result.Pod
				c.answered(a)
			}
			if got := r.ours(`epp_tokens_requests_total{source="engine"}`); got != "4" {
				t.Errorf("requests with engines' ids are %s", got)
			}
			if got := r.ours("epp_tokens_mismatches_total"); got != "0" {
				t.Errorf("mismatches are %s", got)
			}
		})
	}
}

// Requests that come through Envoy are asked for too, in however many pieces.
func TestEnginesOwnTokensThroughEnvoy(t *testing.T) {
	r := start(t, ownTokens(tokens.SourceEngine))
	conn := r.grpc(r.at.Extproc, anyTLS())
	defer conn.Close()
	body := fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":1}`, r.model, words("p", 64))
	e := r.begin(conn, "pieces")
	e.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{
		RequestBody: &extproc.HttpBody{Body: []byte(body[:50])},
	}})
	e.finish(body[50:])
	rec := r.completed("pieces")
	if rec.Request.TokensFrom != tokens.FromEngine || rec.Request.PromptTokens != 65 { // with the mark
		t.Errorf("%d ids from %s", rec.Request.PromptTokens, rec.Request.TokensFrom)
	}
}

// With approximate ids the same fleet looks empty: nothing that it reports is
// found. It must be said that they are.
func TestApproximateTokensFindNothing(t *testing.T) {
	r := start(t, ownTokens(tokens.SourceApproximate))
	c := r.talk()
	for turn := range 3 {
		a, rec := r.ask(fmt.Sprint("turn-", turn), chatPath, c.next())
		if rec.Request.TokensFrom != "approximate" || rec.Timings.Tokens != nil {
			t.Errorf("turn %d: ids from %s, timings %+v", turn, rec.Request.TokensFrom, rec.Timings)
		}
		if n := countOf(t, "prediction", rec.Outcome.PredictedCached); n != 0 {
			t.Errorf("turn %d: %d cached tokens predicted", turn, n)
		}
		c.answered(a)
	}
}

// Simulated pods are not asked unless it is configured: the approximate ids are
// theirs.
func TestSimulatedPodsAreNotAsked(t *testing.T) {
	r := start(t, serveOptions(2))
	_, rec := r.ask("first", completionsPath, r.completion(words("p", 64), 1))
	if rec.Request.TokensFrom != "approximate" || rec.Timings.Tokens != nil || r.server.tokens != nil {
		t.Errorf("ids from %s, timings %+v", rec.Request.TokensFrom, rec.Timings)
	}
}

// Slow tokenisers cost a few requests their timeout; routing goes on, and finds
// the beginning of a conversation.
func TestSlowTokenisersDoNotSlowRouting(t *testing.T) {
	o := ownTokens(tokens.SourceEngine)
	o.Config.Tokens.TimeoutMs = 250
	r := start(t, o)
	c := r.talk()
	a, rec := r.ask("before", chatPath, c.next())
	pod := rec.Result.Pod
	c.answered(a)
	if err := r.fleet.SlowTokenise(sim.AllPods, patience); err != nil {
		t.Fatal(err)
	}
	waited := 0
	for i := range 30 {
		_, rec := r.ask(fmt.Sprint("slow-", i), completionsPath, r.completion(words(fmt.Sprint("x", i), 64), 1))
		if rec.Request.TokensFrom == "approximate" && *rec.Timings.Tokens >= 0.2 {
			waited++
		}
	}
	if waited > 8 { // 4, and what had begun
		t.Errorf("%d requests waited for the timeout", waited)
	}
	_, rec = r.ask("next", chatPath, c.next())
	if n := countOf(t, "prediction", rec.Outcome.PredictedCached); rec.Request.TokensFrom != "approximate" || n == 0 || rec.Result.Pod != pod {
		t.Errorf("the next turn: ids from %s, %d cached tokens predicted, at %s; the cache is at %s", rec.Request.TokensFrom, n, rec.Result.Pod, pod)
	}
	report := explain.Explain(rec, explain.Options{})
	if report.TokensFrom != "approximate" {
		t.Errorf("explained as %q", report.TokensFrom)
	}

	if err := r.fleet.Recover(sim.AllPods); err != nil {
		t.Fatal(err)
	}
	tries := 0
	r.until("ids are exact again", func() bool {
		tries++
		_, rec := r.ask(fmt.Sprint("again-", tries), completionsPath, r.completion(words(fmt.Sprint("y", tries), 64), 1))
		return rec.Request.TokensFrom == tokens.FromEngine
	})
}
