package serve

import (
	"context"
	encoding "encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// publishing is an idle vLLM with one model that publishes KV events, and says
// where.
type publishing struct {
	t         *testing.T
	member    pool.Member
	publisher *zmtp.Publisher
	seq       uint64
}

func newPublishing(t *testing.T, name string) *publishing {
	t.Helper()
	p := &publishing{t: t, publisher: zmtp.NewPublisher(0, zmtp.Options{})}
	l, err := zmtp.Listen(t.Context(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.publisher.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	pages := map[string]string{
		"/health":           "",
		"/v1/models":        `{"data":[{"id":"tiny","root":"tiny"}]}`,
		"/metrics":          "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0\n",
		"/v1/completions":   `{"choices":[{"text":"x"}],"usage":{"prompt_tokens":64,"completion_tokens":1}}`,
		"/kv_event_sources": fmt.Sprintf(`{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:%s"}}`, l.Addr().String()[len("127.0.0.1:"):]),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "metrics") {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		}
		fmt.Fprint(w, page)
	}))
	t.Cleanup(server.Close)
	if p.member, err = ParseEndpoint(name + "=" + server.URL); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *publishing) publish(e kvevent.Event) {
	p.t.Helper()
	payload, err := kvevent.Append(nil, kvevent.MapV24, &kvevent.Batch{At: time.Now(), Events: []kvevent.Event{e}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.publisher.Publish([]byte("kv@127.0.0.1@tiny"), encoding.BigEndian.AppendUint64(nil, p.seq), payload)
	p.seq++
}

// The prefix is where the events say that it is, and not where it was before.
func TestEventsDecide(t *testing.T) {
	a, b := newPublishing(t, "a"), newPublishing(t, "b")
	opts := serveOptions(0)
	opts.Endpoints = []pool.Member{a.member, b.member}
	r := start(t, opts)
	r.model = "tiny"
	for _, p := range []*publishing{a, b} {
		r.until("it is listened to", func() bool { return p.publisher.Stats().Subscribers == 1 })
	}
	prompt := make([]uint32, 64)
	for i := range prompt {
		prompt[i] = uint32(100 + i)
	}
	blocks := kvevent.Event{Kind: kvevent.Stored, Hashes: []uint64{1, 2, 3, 4}, Tokens: prompt, BlockSize: 16, LoRAID: -1}
	holds := func(pod string, n int) {
		t.Helper()
		r.until(fmt.Sprintf("%s holds %d blocks", pod, n), func() bool {
			c := r.pods()[pod].Cache
			return c.Source == "events" && c.Blocks != nil && *c.Blocks == n
		})
	}
	goesTo := func(id, pod string) *explain.Record {
		t.Helper()
		answered, rec := r.ask(id, completionsPath, r.completion(prompt, 1))
		if answered.pod() != pod || matched(t, rec, pod) != 4 || countOf(t, "prediction", rec.Outcome.PredictedCached) != 48 {
			t.Errorf("request %s went to %s, want %s with 4 blocks of which 48 tokens count: %v", id, answered.pod(), pod, rec.Outcome.PredictedCached)
		}
		replayed(t, rec)
		return rec
	}

	b.publish(blocks)
	holds("b", 4)
	rec := goesTo("first", "b")
	if c := candidate(t, rec, "b").Cache; c.Source != "events" || c.State != "known" {
		t.Errorf("the record says of b's cache: %+v", c)
	}
	b.publish(kvevent.Event{Kind: kvevent.Removed, Hashes: []uint64{1, 2, 3, 4}, LoRAID: -1})
	a.publish(blocks)
	holds("b", 0)
	holds("a", 4)
	goesTo("second", "a")

	streams := r.pods()["b"].Streams
	if len(streams) != 1 {
		t.Fatalf("b has %d streams", len(streams))
	}
	if s := streams[0]; !s.Connected || s.Since == nil || s.Counts.Stored != 1 || s.Counts.Removed != 1 || s.LastEventAge == nil || s.BlockSizeTokens == nil || *s.BlockSizeTokens != 16 {
		t.Errorf("b's stream: %+v", s)
	}
	for sample, want := range map[string]string{
		`epp_kv_events_total{event="stored",pod="b"}`: "1", `epp_kv_events_total{event="removed",pod="b"}`: "1",
		`epp_kv_blocks{pod="a",tier="gpu"}`: "4", `epp_kv_event_gaps_total{pod="a"}`: "0",
		`epp_kv_event_streams_connected{pod="a"}`: "1", `epp_kv_event_strangers_total{pod="a"}`: "0",
	} {
		if got := r.ours(sample); got != want {
			t.Errorf("%s is %s, want %s", sample, got, want)
		}
	}
}

func TestEventsAreOff(t *testing.T) {
	a := newPublishing(t, "a")
	opts := serveOptions(0)
	opts.Endpoints = []pool.Member{a.member}
	opts.Config.Events.Enabled = false
	r := start(t, opts)
	if p := r.pods()["a"]; p.Streams != nil || a.publisher.Stats().Connections != 0 {
		t.Errorf("streams %+v", p.Streams)
	}
}
