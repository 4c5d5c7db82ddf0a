package sim

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// A subscriber knows exactly what the pod holds, whatever the traffic, and a
// replay tells the same again.
func TestSubscriberKnowsTheCache(t *testing.T) {
	for as, tells := range map[string]struct{ adapters, salts bool }{
		"": {true, true}, "vllm-0.8": {false, false}, "sglang-map": {false, true},
	} {
		t.Run("as "+as, func(t *testing.T) {
			adapters := []string{DefaultModel, "fr", "de"}
			if !tells.adapters {
				adapters = adapters[:1]
			}
			f := start(t, Config{
				Events: true, EventsAs: as, Blocks: 48, Clock: clock.NewScaled(1000),
				Adapters: []vllm.Adapter{{Name: "fr"}, {Name: "de"}},
			})
			l, pod := subscribe(t, f, 0), f.Pods()[0]
			rapid.Check(t, func(rt *rapid.T) { randomTraffic(t, rt, f, adapters, tells.salts) })
			// The last reset is told with the step of this.
			complete(t, pod, completionsPath, idsPrompt(9, 40, `,"max_tokens":1`))
			caught(t, f, l)
			again := replayed(t, pod, 0)
			again.check(t)
			want := cacheOf(f.pods[0])
			for name, got := range map[string]*listener{"subscriber": l, "replay": again} {
				if diff := cmp.Diff(want, got.holds(), cmp.AllowUnexported(root{})); diff != "" {
					t.Errorf("the pod's cache and the %s's (-want +got):\n%s", name, diff)
				}
				if got.gaps() != 0 || got.heard() != l.heard() {
					t.Errorf("the %s has %d batches with %d gaps, want %d", name, got.heard(), got.gaps(), l.heard())
				}
			}
			if !maps.Equal(l.copies, again.copies) {
				t.Errorf("copies: %v live, %v replayed", l.copies, again.copies)
			}
		})
	}
}

// randomTraffic sends requests side by side, and does what empties caches.
func randomTraffic(t *testing.T, rt *rapid.T, f *Fleet, adapters []string, salts bool) {
	var clients sync.WaitGroup
	defer clients.Wait()
	pod := f.Pods()[0]
	for range rapid.IntRange(1, 4).Draw(rt, "requests") {
		more := fmt.Sprintf(`,"max_tokens":%d`, rapid.IntRange(1, 40).Draw(rt, "max"))
		if salts && rapid.Bool().Draw(rt, "salted") {
			more += rapid.SampledFrom([]string{`,"cache_salt":"tenant a"`, `,"cache_salt":"b"`}).Draw(rt, "salt")
		}
		n := 16*rapid.IntRange(1, 12).Draw(rt, "blocks") + rapid.IntRange(0, 1).Draw(rt, "odd")
		body := idsPrompt(rapid.IntRange(1, 3).Draw(rt, "family"), n, more)
		body = strings.Replace(body, DefaultModel, rapid.SampledFrom(adapters).Draw(rt, "adapter"), 1)
		clients.Go(func() {
			if r, err := call(t, http.MethodPost, pod.URL+completionsPath, body); err != nil || r.status != http.StatusOK {
				t.Errorf("%d %s %v", r.status, r.body, err)
			}
		})
	}
	switch rapid.IntRange(0, 4).Draw(rt, "interference") {
	case 0:
		if _, err := f.Evict(AllPods, rapid.IntRange(0, 9).Draw(rt, "evicted")); err != nil {
			t.Error(err)
		}
	case 1:
		mustCall(t, http.MethodPost, pod.URL+"/reset_prefix_cache", "")
	}
}

func TestRestartBeginsAgain(t *testing.T) {
	f := start(t, Config{Events: true})
	l, pod := subscribe(t, f, 0), f.Pods()[0]
	body := idsPrompt(1, 40, `,"max_tokens":1`)
	complete(t, pod, completionsPath, body)
	caught(t, f, l)
	before := l.holds()
	if err := f.Restart("sim-0"); err != nil {
		t.Fatal(err)
	}
	if p := f.Pods()[0]; p.Batches != 0 || p.Events != pod.Events || p.Replay != pod.Replay {
		t.Errorf("after a restart: %+v", p)
	}
	http.DefaultClient.CloseIdleConnections()
	subscribed(t, f, 0)
	complete(t, pod, completionsPath, body)
	until(t, "the new stream is heard", func() bool { return l.heard() == 2 })
	l.check(t)
	if l.seqs[0] != 0 || l.seqs[1] != 0 {
		t.Errorf("numbers %v, want 0 twice", l.seqs)
	}
	if diff := cmp.Diff(before, l.holds(), cmp.AllowUnexported(root{})); diff != "" {
		t.Errorf("the same prompt has other ids, or something was cleared:\n%s", diff)
	}
}

func TestLostBatchesAreGaps(t *testing.T) {
	f := start(t, Config{Events: true, EventLoss: 1})
	l, pod := subscribe(t, f, 0), f.Pods()[0]
	send := func(family, n int) {
		complete(t, pod, completionsPath, idsPrompt(family, n, `,"max_tokens":1`))
	}
	send(1, 40)
	if err := f.Lose("sim-0", 0); err != nil {
		t.Fatal(err)
	}
	send(2, 40)
	caught(t, f, l)
	if p := f.Pods()[0]; p.BatchesLost != 1 || l.gaps() != 1 || l.heard() != 1 {
		t.Errorf("%d batches lost, %d heard with %d missing", p.BatchesLost, l.heard(), l.gaps())
	}
	if err := f.Lose("sim-0", 0.5); err != nil {
		t.Fatal(err)
	}
	for family := range 40 {
		send(3+family, 40)
	}
	if err := f.Recover("sim-0"); err != nil {
		t.Fatal(err)
	}
	send(99, 40)
	caught(t, f, l)
	p := f.Pods()[0]
	if p.BatchesLost < 5 || p.BatchesLost > 36 || l.gaps() != p.BatchesLost {
		t.Errorf("of 40 batches half should be lost: %d were, %d are missing", p.BatchesLost-1, l.gaps()-1)
	}
	if again := replayed(t, pod, 0); uint64(again.heard()) != p.Batches || again.gaps() != 0 {
		t.Errorf("a replay has %d of %d batches", again.heard(), p.Batches)
	}
}

// What is held or delayed goes out later, in order and with its own time.
func TestHeldAndDelayedEvents(t *testing.T) {
	f := start(t, Config{Events: true})
	l, pod := subscribe(t, f, 0), f.Pods()[0]
	if err := f.Hold("sim-0", Channels{Events: true}); err != nil {
		t.Fatal(err)
	}
	for family := range 3 {
		complete(t, pod, completionsPath, idsPrompt(1+family, 40, `,"max_tokens":1`))
	}
	answered := f.cfg.Clock.Now()
	if p := f.Pods()[0]; p.Batches != 0 || l.heard() != 0 || replayed(t, pod, 0).heard() != 0 {
		t.Errorf("%d batches went out while held", p.Batches)
	}
	if err := f.Release("sim-0", Channels{Events: true}); err != nil {
		t.Fatal(err)
	}
	until(t, "the held batches have come", func() bool { return l.heard() == 3 })
	if l.gaps() != 0 || l.last.After(answered) {
		t.Errorf("numbers %v, the last of %v, after the answer of %v", l.seqs, l.last, answered)
	}

	const late = 5 * time.Second // of the fleet's time, in which an answer takes 20 ms
	if err := f.Delay("sim-0", late); err != nil {
		t.Fatal(err)
	}
	complete(t, pod, completionsPath, idsPrompt(7, 40, `,"max_tokens":1`))
	until(t, "the delayed batch has come", func() bool { return l.heard() == 4 })
	if now := f.cfg.Clock.Now(); now.Sub(l.last) < late {
		t.Errorf("a batch came %v after its step, want %v at least", now.Sub(l.last), late)
	}
	l.check(t)
}

// The forms of requests that vLLM answers, and those that it does not.
func TestReplayRequests(t *testing.T) {
	f := start(t, Config{Events: true})
	pod := f.Pods()[0]
	for family := range 3 {
		complete(t, pod, completionsPath, idsPrompt(1+family, 40, `,"max_tokens":1`))
	}
	const topic = "kv@"
	for _, tt := range []struct {
		name    string
		request [][]byte
		seqs    []byte
	}{
		{"from 0", kvevent.ReplayRequest(0), []byte{0, 1, 2}},
		{"from the last", kvevent.ReplayRequest(2), []byte{2}},
		{"beyond the end", kvevent.ReplayRequest(3), nil},
		{"a short number", [][]byte{{}, {1}}, []byte{1, 2}},
		{"an empty number", [][]byte{{}, {}}, []byte{0, 1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []byte
			for frames, err := range zmtp.Request(t.Context(), pod.Replay, zmtp.Options{}, tt.request...) {
				if err != nil || len(frames) != 4 || len(frames[0]) != 0 || len(frames[2]) != 8 {
					t.Fatalf("a reply of %d frames, %v", len(frames), err)
				}
				if string(frames[2]) == "\xff\xff\xff\xff\xff\xff\xff\xff" {
					if len(frames[1])+len(frames[3]) != 0 {
						t.Errorf("the end mark is %q", frames)
					}
					break
				}
				if string(frames[1][:3]) != topic {
					t.Errorf("topic %q", frames[1])
				}
				got = append(got, frames[2][7])
			}
			if string(got) != string(tt.seqs) {
				t.Errorf("batches %v, want %v", got, tt.seqs)
			}
		})
	}
	s := f.pods[0].server()
	for _, request := range [][][]byte{{}, {{}}, {{0}, {0}}, {{}, {0}, {0}}, {{}, make([]byte, 9)}} {
		if err := s.events.replay(t.Context(), request, func(...[]byte) error { return errors.New("answered") }); err != nil {
			t.Errorf("a request %q: %v", request, err)
		}
	}
}

func TestOldBatchesAreForgotten(t *testing.T) {
	f := start(t, Config{Events: true})
	e := f.pods[0].server().events
	add := func(n int, b vllm.Batch) {
		s := f.pods[0].server()
		s.mu.Lock()
		defer s.mu.Unlock()
		for range n {
			e.add(b)
		}
	}
	add(keptBatches+5, vllm.Batch{Cleared: true})
	if l := replayed(t, f.Pods()[0], 0); l.heard() != keptBatches || l.seqs[0] != 5 {
		t.Errorf("%d batches from %d on are kept", l.heard(), l.seqs[0])
	}
	const big = 1 << 20
	add(70, vllm.Batch{Removed: make([]uint64, big/8)})
	if len(e.kept) >= 70 || e.bytes > keptBytes {
		t.Errorf("%d batches, %d bytes are kept", len(e.kept), e.bytes)
	}
	if err := f.Hold("sim-0", Channels{Events: true}); err != nil {
		t.Fatal(err)
	}
	add(keptBatches+5, vllm.Batch{Cleared: true}) // more than are kept while held
	if err := f.Release("sim-0", Channels{Events: true}); err != nil {
		t.Fatal(err)
	}
	until(t, "the rest went out", func() bool { return f.Pods()[0].Batches == 2*keptBatches+80 })
}

func TestEventSources(t *testing.T) {
	f := start(t, Config{Events: true, Pods: 2})
	pod := f.Pods()[1]
	port := func(address string) string { return address[len("tcp://127.0.0.1:"):] }
	want := fmt.Sprintf(`{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:%s","replay_endpoint":"tcp://*:%s",`+
		`"buffer_steps":10000,"hwm":100000,"max_queue_size":100000,"topic":"kv@%s@%s"}}`,
		port(pod.Events), port(pod.Replay), pod.Address, DefaultModel)
	if r := mustCall(t, http.MethodGet, pod.URL+"/kv_event_sources", ""); r.body != want {
		t.Errorf("GET /kv_event_sources:\n%s\nwant\n%s", r.body, want)
	}
	silent := start(t, Config{}).Pods()[0]
	if r := mustCall(t, http.MethodGet, silent.URL+"/kv_event_sources", ""); r.status != http.StatusNotFound || silent.Events+silent.Replay != "" {
		t.Errorf("a pod without events: %d %s, %+v", r.status, r.body, silent)
	}
}

func TestEventsAreChecked(t *testing.T) {
	for _, cfg := range []Config{{EventsAs: "vllm-7"}, {EventLoss: 1.5}, {EventLoss: -1}} {
		cfg.Pods, cfg.Events = 1, true
		if f, err := New(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
			f.Close()
		}
	}
}
