package extproc

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/naming"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/steering"
)

// named gives the site's pods pools, llama in ns/p and qwen in ns/q, and rules.
func (s *site) named(t *testing.T, rules ...naming.Rule) {
	t.Helper()
	pools, models := []string{"ns/p", "ns/p", "ns/q"}, []string{"llama", "llama", "qwen"}
	var members []pool.Member
	for i := range pools {
		members = append(members, pool.Member{Name: fmt.Sprintf("pod-%d", i), Address: podAddress(i), Pool: pools[i]})
	}
	if err := s.pool.Set(members); err != nil {
		t.Fatal(err)
	}
	for i, target := range s.pool.Targets() {
		s.pool.Listed(target, []engine.Model{{ID: models[i]}}, nil)
	}
	table, conflicts := naming.NewTable(rules)
	if len(conflicts) > 0 {
		t.Fatal(conflicts)
	}
	s.picker.SetNames(table)
}

func chatRule(targets ...naming.Target) naming.Rule {
	return naming.Rule{Source: "InferenceModel ns/chat", Older: true, Model: "chat", Pool: "ns/p", Targets: targets}
}

// Requests for one name are split over an adapter and the base model: the pod gets
// the name of that, the client its own back, and the same ID goes the same way.
func TestNameIsSplit(t *testing.T) {
	in := fmt.Sprintf(oddBody, "chat")
	bubble(t, nil, func(t *testing.T, s *site) {
		s.named(t, chatRule(naming.Target{Model: "billing-lora-v3", Weight: 30}, naming.Target{Model: "llama", Weight: 70}))
		sent := map[string]string{} // by request ID
		for i := range 60 {
			id := fmt.Sprint("id-", i%20)
			modes := [][2]mode{{fullDuplex, fullDuplex}, {buffered, buffered}, {fullDuplex, streamed}}[i/20]
			f := s.open(t, modes[0], modes[1])
			f.send(post(steering.RequestID, id, "content-length", strconv.Itoa(len(in))), requestBody(in, true))
			r := s.records(t)[0].Request
			if r.Model != "chat" || r.Base != "llama" || r.Rewrite == nil || r.Rewrite.Targets != 2 || r.Rewrite.WeightSum != 100 {
				t.Fatalf("recorded %+v, rewrite %+v", r, r.Rewrite)
			}
			to := r.Rewrite.To
			if adapter := r.Adapter == "billing-lora-v3"; adapter != (to == "billing-lora-v3") || adapter != r.ModelUnchecked {
				t.Fatalf("to %s, recorded with the adapter %q", to, r.Adapter)
			}
			if before := sent[id]; before != "" && before != to {
				t.Fatalf("%s went to %s and then to %s", id, before, to)
			}
			sent[id] = to
			want := fmt.Sprintf(oddBody, to)
			if length := f.request.fields.get("content-length"); string(f.request.body) != want || length != "" && length != strconv.Itoa(len(want)) {
				t.Fatalf("the pod gets %q of length %s, want %q", f.request.body, length, want)
			}
			text := strings.ReplaceAll(sseAnswer, `"m"`, strconv.Quote(to))
			if modes[1] == buffered {
				f.send(sseHead(), responseBody(text, true)).done()
			} else {
				f.send(sseHead()).send(pieces(responseBody, true, cut(text, i%20+1)...)...).done()
			}
			if want := strings.ReplaceAll(sseAnswer, `"m"`, `"chat"`); string(f.response.body) != want {
				t.Fatalf("the client gets %q, want %q", f.response.body, want)
			}
		}
		got := map[string]int{}
		for _, to := range sent {
			got[to]++
		}
		if got["billing-lora-v3"] == 0 || got["llama"] == 0 || len(got) != 2 {
			t.Errorf("20 IDs went to %v", got)
		}
		s.settled(t)
	})
}

// Whoever serves the name is asked, though others have shorter queues; a name that
// nobody knows is not found; full queues refuse what is Sheddable.
func TestNameDecides(t *testing.T) {
	sheddable := chatRule(naming.Target{Model: "qwen", Weight: 1})
	sheddable.Pool, sheddable.Criticality = "ns/q", naming.Sheddable
	body := func(model string) *message {
		return requestBody(strings.ReplaceAll(chatBody, `"m"`, strconv.Quote(model)), true)
	}
	bubble(t, nil, func(t *testing.T, s *site) {
		s.named(t, sheddable)
		f := s.open(t, fullDuplex, fullDuplex)
		f.send(post(), body("chat")).send(jsonHead(), responseBody("{}", true)).done()
		r := s.record(t)
		if r.Result.Pod != "pod-2" || r.Candidates[0].Reason != "not-in-pool" || r.Candidates[1].Reason != "not-in-pool" {
			t.Errorf("%s was picked, the others are out as %q and %q", r.Result.Pod, r.Candidates[0].Reason, r.Candidates[1].Reason)
		}
		f = s.open(t, fullDuplex, fullDuplex)
		f.send(post(), body("what"))
		if got := f.refused(); got.status != 404 {
			t.Errorf("a name that nobody knows: %+v", got)
		}
		f.done()
		time.Sleep(time.Second) // the first pages must be older
		s.queues(100)
		f = s.open(t, fullDuplex, fullDuplex)
		f.send(post(), body("chat"))
		if got := f.refused(); got.status != 429 || got.dropped != "rejected-saturated" {
			t.Errorf("Sheddable, with full queues: %+v", got)
		}
		f.done()
		f = s.open(t, fullDuplex, fullDuplex)
		f.send(post(), body("qwen")).send(jsonHead(), responseBody("{}", true)).done()
		if r := s.records(t)[0]; !r.Result.Relaxed || r.Result.Pod != "pod-2" {
			t.Errorf("the same model by its own name: %+v", r.Result)
		}
		s.settled(t)
	})
}

// A rule for the client's own name goes before the name that the route gives.
func TestNameBeforeTheRoutes(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *site) {
		s.named(t, chatRule(naming.Target{Model: "llama", Weight: 1}))
		for asked, want := range map[string]string{"chat": "llama", "other": "qwen"} {
			f := s.open(t, fullDuplex, fullDuplex)
			f.send(post(steering.Model, "qwen"), requestBody(strings.ReplaceAll(chatBody, `"m"`, strconv.Quote(asked)), true))
			f.send(jsonHead(), responseBody(fmt.Sprintf(`{"model":%q}`, want), true)).done()
			if text := strings.ReplaceAll(chatBody, `"m"`, strconv.Quote(want)); string(f.request.body) != text {
				t.Errorf("%s: the pod gets %s, want %s", asked, f.request.body, text)
			}
			if text := fmt.Sprintf(`{"model":%q}`, asked); string(f.response.body) != text {
				t.Errorf("the client gets %s, want %s", f.response.body, text)
			}
			if r := s.records(t)[0].Request; r.Model != asked || r.Rewrite == nil || r.Rewrite.To != want {
				t.Errorf("recorded %+v, rewrite %+v", r, r.Rewrite)
			}
		}
		s.settled(t)
	})
}
