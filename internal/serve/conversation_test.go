package serve

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/sim"
	"github.com/eppctl/eppctl/score"
)

// A talk is a conversation whose turns all have the same length.
type talk struct {
	rig      *rig
	messages []object
	turns    int
}

const (
	systemTokens   = 320
	questionTokens = 96
	answerTokens   = 64
)

func (r *rig) talk() *talk {
	return &talk{rig: r, messages: []object{{"role": "system", "content": words("s", systemTokens)}}}
}

// next is the body of the next turn.
func (c *talk) next() object {
	c.turns++
	c.messages = append(c.messages, object{"role": "user", "content": words(fmt.Sprint("q", c.turns), questionTokens)})
	return object{"model": c.rig.model, "messages": c.messages, "max_tokens": answerTokens}
}

// answered keeps what the model said, and waits until the picker knows what the
// pods hold now.
func (c *talk) answered(a *answer) {
	c.rig.t.Helper()
	text := a.text()
	if text == "" {
		c.rig.t.Fatalf("an answer without text: %s", a.body)
	}
	c.messages = append(c.messages, object{"role": "assistant", "content": text})
	c.rig.quiet()
}

// cacheFactor is the cache factor's value of a pod that could win.
func cacheFactor(t *testing.T, rec *explain.Record, pod string) float64 {
	t.Helper()
	report := explain.Explain(rec, explain.Options{})
	for _, c := range report.Candidates {
		if c.Pod != pod {
			continue
		}
		for _, f := range c.Factors {
			if f.Name == "cacheMatch" && f.Value != nil {
				return *f.Value
			}
		}
	}
	t.Fatalf("decision %s has no cache factor of %s", rec.RequestID, pod)
	return 0
}

func TestConversationStaysWithItsCache(t *testing.T) {
	r := start(t, serveOptions(4))
	conversation := r.talk()
	owner, last := "", -1.0
	for turn := 1; turn <= 5; turn++ {
		id := fmt.Sprint("turn-", turn)
		a, rec := r.ask(id, chatPath, conversation.next())
		replayed(t, rec)
		if turn == 1 {
			owner = a.pod()
		}
		if a.pod() != owner {
			t.Errorf("turn %d went to %s, the conversation's cache is on %s", turn, a.pod(), owner)
		}
		factor := cacheFactor(t, rec, owner)
		if factor <= last {
			t.Errorf("turn %d: the cache factor is %v after %v, and should grow", turn, factor, last)
		}
		last = factor
		predicted := countOf(t, "prediction", rec.Outcome.PredictedCached)
		if cached := countOf(t, "engine's count", rec.Outcome.CachedTokens); cached != predicted {
			t.Errorf("turn %d: %d tokens were predicted to be cached, the engine found %d", turn, predicted, cached)
		}
		conversation.answered(a)
	}
	if last < 0.7 {
		t.Errorf("by the fifth turn the cache factor is only %v", last)
	}
}

// settled is a conversation of four turns, and a second pod that holds part of
// its prefix.
func settled(t *testing.T, r *rig) (c *talk, owner, second string) {
	t.Helper()
	c = r.talk()
	for turn := 1; turn <= 4; turn++ {
		a, _ := r.ask(fmt.Sprint("before-", turn), chatPath, c.next())
		if turn == 1 {
			owner = a.pod()
		} else if a.pod() != owner {
			t.Fatalf("turn %d went to %s, not to %s", turn, a.pod(), owner)
		}
		c.answered(a)
	}
	for _, p := range r.fleet.Pods() {
		if p.Name != owner {
			second = p.Name
		}
	}
	r.direct(second, chatPath, object{"model": r.model, "messages": c.messages[:2], "max_tokens": 1})
	r.quiet()
	return c, owner, second
}

func TestFullOwnerMovesTheTurnToTheBestPartialMatch(t *testing.T) {
	const maxQueue = 8
	opts := serveOptions(4)
	opts.Config.MaxQueue = maxQueue
	r := start(t, opts)
	conversation, owner, second := settled(t, r)
	if err := r.fleet.Hold(sim.AllPods, sim.Everything()); err != nil {
		t.Fatal(err)
	}
	turn := conversation.next()
	filling := &crowd{answers: make([]*answer, maxQueue+1)}
	for i := range maxQueue {
		filling.wg.Go(func() { filling.answers[i] = r.send(r.ctx, fmt.Sprint("filling-", i), chatPath, turn) })
	}
	r.inFlight(maxQueue)
	for _, p := range r.ledger().Pods {
		if want := map[bool]int{true: maxQueue}[p.Pod == owner]; p.Pending != want {
			t.Fatalf("%d requests are pending on %s, want %d", p.Pending, p.Pod, want)
		}
	}
	filling.wg.Go(func() { filling.answers[maxQueue] = r.send(r.ctx, "moved", chatPath, turn) })
	r.inFlight(maxQueue + 1)

	rec := r.decision("moved")
	replayed(t, rec)
	report := explain.Explain(rec, explain.Options{})
	if report.Picked == nil || report.Picked.Pod != second {
		t.Fatalf("picked %+v, the best partial match is %s", report.Picked, second)
	}
	for _, p := range r.fleet.Pods() {
		switch n := matched(t, rec, p.Name); p.Name {
		case owner, second:
			if n == 0 {
				t.Errorf("%s holds nothing of the prefix", p.Name)
			}
		default:
			if n != 0 {
				t.Errorf("%s holds %d blocks", p.Name, n)
			}
		}
	}
	if part, whole := matched(t, rec, second), matched(t, rec, owner); part >= whole {
		t.Errorf("%s holds %d blocks and %s, which should hold more, %d", second, part, owner, whole)
	}
	if len(report.Excluded) != 1 || report.Excluded[0].Pod != owner || report.Excluded[0].Reason != score.QueueFull.String() {
		t.Fatalf("excluded are %+v, want %s as queue-full", report.Excluded, owner)
	}
	if would := report.Excluded[0].WouldScore; would == nil || *would <= report.Picked.Score {
		t.Errorf("%s would have scored %v; the pick has %v", owner, would, report.Picked.Score)
	}
	var text strings.Builder
	if err := report.Text(&text, explain.TextOptions{Width: 120}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{owner, "queue-full", "would"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the explanation does not say %q:\n%s", want, text.String())
		}
	}
	if err := r.fleet.Release(sim.AllPods, sim.Everything()); err != nil {
		t.Fatal(err)
	}
	filling.allWell(t)
	r.inFlight(0)
}

// case P2: a pod dies under its requests.
func TestKilledPodsRequestsFailAndTheRetryGoesToTheNextBestCache(t *testing.T) {
	r := start(t, serveOptions(4))
	conversation, owner, second := settled(t, r)
	if err := r.fleet.Slow(owner, 20); err != nil { // so that the stream is still running
		t.Fatal(err)
	}
	turn := conversation.next()
	streamed := object{"model": r.model, "messages": conversation.messages, "max_tokens": 100_000, "stream": true}
	stream, err := r.open(r.ctx, "http://"+r.at.Gateway+chatPath, "streaming", streamed)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	if !lines.Scan() || stream.StatusCode != http.StatusOK || stream.Header.Get("X-Eppctl-Pod") != owner {
		t.Fatalf("the stream began with status %d on %s", stream.StatusCode, stream.Header.Get("X-Eppctl-Pod"))
	}
	if err := r.fleet.Hold(owner, sim.Channels{Answers: true}); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan *answer, 1)
	go func() { waiting <- r.send(r.ctx, "waiting", chatPath, turn) }()
	r.until("both are on the pod", func() bool { p := r.pod(owner); return p.Running+p.Waiting == 2 })
	r.inFlight(2)

	if err := r.fleet.Kill(owner); err != nil {
		t.Fatal(err)
	}
	if a := <-waiting; a.err != nil || a.status != http.StatusBadGateway || a.code() != "upstream_failed" {
		t.Errorf("the waiting request: status %d, error %v: %s", a.status, a.err, a.body)
	}
	for lines.Scan() {
		if strings.Contains(lines.Text(), "[DONE]") {
			t.Error("the stream came to its end")
		}
	}
	if lines.Err() == nil {
		t.Error("the client can't tell that its stream was cut")
	}
	for id, want := range map[string]string{"waiting": picker.ErrorUpstreamFailed, "streaming": picker.ErrorUpstreamClosed} {
		if rec := r.completed(id); rec.Outcome.Error != want || rec.Result.Pod != owner {
			t.Errorf("%s went to %s and ended with %q, want %s and %q", id, rec.Result.Pod, rec.Outcome.Error, owner, want)
		}
	}
	r.inFlight(0)

	a, rec := r.ask("retried", chatPath, turn)
	replayed(t, rec)
	if a.pod() != second {
		t.Errorf("the retry went to %s, the next best cache is on %s", a.pod(), second)
	}
	if cached := countOf(t, "engine's count", rec.Outcome.CachedTokens); cached < systemTokens {
		t.Errorf("%s found %d tokens in its cache, at least %d were sent to it", second, cached, systemTokens)
	}
	r.inFlight(0)
}
