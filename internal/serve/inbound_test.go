package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/pool"
)

// An engine connects to the picker and publishes; what it says decides.
func TestEngineConnects(t *testing.T) {
	a := newPublishing(t, "a")
	a.member.Events = pool.EventsListen
	opts := serveOptions(0)
	opts.Endpoints = []pool.Member{a.member}
	opts.Config.Events.Listen = "127.0.0.1:0"
	r := start(t, opts)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.publisher.Connect(ctx, r.at.Events) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	r.until("it is heard", func() bool { return a.publisher.Stats().Subscribers == 1 })
	blocks := kvevent.Event{Kind: kvevent.Stored, Hashes: []uint64{1, 2}, Tokens: make([]uint32, 32), BlockSize: 16, LoRAID: -1}
	a.publish(blocks)
	r.until("its blocks are known", func() bool {
		c := r.pods()["a"].Cache
		return c.Source == "events" && c.Blocks != nil && *c.Blocks == 2
	})
	streams := r.pods()["a"].Streams
	if len(streams) != 1 || !streams[0].Inbound || !strings.HasPrefix(streams[0].Events, "tcp://127.0.0.1:") || !streams[0].Connected {
		t.Errorf("streams %+v", streams)
	}
	for sample, want := range map[string]string{
		"epp_kv_event_inbound_connections": "1", "epp_kv_event_inbound_unassigned": "0", "epp_kv_event_inbound_strangers_total": "0",
		`epp_kv_event_streams_connected{pod="a"}`: "1",
	} {
		if got := r.ours(sample); got != want {
			t.Errorf("%s is %s, want %s", sample, got, want)
		}
	}
}

// Simulated pods connect to a picker that listens.
func TestSimulatedPodsConnect(t *testing.T) {
	opts := serveOptions(2)
	opts.Sim.Events = true
	opts.Config.Events.Listen = "127.0.0.1:0"
	r := start(t, opts)
	r.until("both are there", func() bool { return r.ours("epp_kv_event_inbound_connections") == "2" })
	prompt := make([]uint32, 64)
	answered, _ := r.ask("first", completionsPath, r.completion(prompt, 1))
	r.until("its events are known", func() bool {
		p := r.pods()[answered.pod()]
		return p.Cache.Source == "events" && len(p.Streams) == 1 && p.Streams[0].Inbound && *p.Cache.Blocks >= 4
	})
	again, rec := r.ask("second", completionsPath, r.completion(prompt, 1))
	if again.pod() != answered.pod() || matched(t, rec, again.pod()) != 4 {
		t.Errorf("the second request went to %s, the first to %s", again.pod(), answered.pod())
	}
}

func TestEventsPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	opts := serveOptions(1)
	opts.Config.Events.Listen = taken.Addr().String()
	_, err = New(opts)
	busy, ok := errors.AsType[*PortInUseError](err)
	if !ok || len(busy.Ports) != 1 || busy.Ports[0].Free == "" || !strings.Contains(err.Error(), fmt.Sprint(taken.Addr(), " (events.listen)")) {
		t.Errorf("error %v", err)
	}
}

func TestEventsListenNeedsAnAddress(t *testing.T) {
	file := filepath.Join(t.TempDir(), "endpoints.yaml")
	text := "endpoints:\n- {name: a, url: 'http://127.0.0.1:1', events: listen, replay: 'tcp://127.0.0.1:2'}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := serveOptions(0)
	opts.EndpointsFile = file
	if _, err := New(opts); err == nil || !strings.Contains(err.Error(), `endpoint "a": events: listen needs`) {
		t.Errorf("error %v", err)
	}
	opts.Config.Events.Listen = "127.0.0.1:0"
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
