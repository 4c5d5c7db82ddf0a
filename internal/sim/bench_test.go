package sim

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// BenchmarkFleet sends long prompts of ids to 8 pods at speed 20; an operation
// is one request and its answer. The time is mostly the engines', computed; what
// the fleet costs is in the process's CPU time.
func BenchmarkFleet(b *testing.B) {
	f, err := New(Config{Pods: 8, Blocks: 65_536, Clock: clock.NewScaled(20)})
	if err != nil {
		b.Fatal(err)
	}
	var fleet sync.WaitGroup
	fleet.Go(func() {
		if err := f.Run(b.Context()); err != nil {
			b.Error(err)
		}
	})
	bodies := make([]string, 64)
	for i := range bodies {
		bodies[i] = idsPrompt(i, 12_000, `,"max_tokens":300`)
	}
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost,
				f.pods[i%8].info().URL+completionsPath, strings.NewReader(bodies[i%len(bodies)]))
			if err != nil {
				b.Error(err)
				return
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			res.Body.Close()
		}
	})
}

// BenchmarkEvents serves new prompts of 4,096 tokens with answers of 64 on an
// engine whose cache is full, so that each stores 259 blocks and evicts as many:
// without events, with nobody to hear them, and with a subscriber.
func BenchmarkEvents(b *testing.B) {
	for _, bb := range []struct {
		name          string
		events, heard bool
	}{{"off", false, false}, {"alone", true, false}, {"heard", true, true}} {
		b.Run(bb.name, func(b *testing.B) {
			f, err := New(Config{Pods: 1, Blocks: 4096, Events: bb.events})
			if err != nil {
				b.Fatal(err)
			}
			s, err := f.pods[0].open()
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			running.Go(func() { s.run(ctx) })
			if bb.heard {
				running.Go(func() { _ = zmtp.Subscribe(ctx, f.Pods()[0].Events, zmtp.Options{}, newListener()) })
				for s.events.publisher.Stats().Subscribers == 0 {
					runtime.Gosched()
				}
			}
			prompt := make([]uint32, 4096)
			now := time.Duration(0)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				prompt = slices.Clone(prompt)
				prompt[0] = uint32(i)
				now = serveOne(b, s, now, &vllm.Sequence{Prompt: prompt, MaxTokens: 64})
			}
		})
	}
}

// serveOne lets the engine serve a sequence as fast as it can.
func serveOne(b *testing.B, s *server, now time.Duration, q *vllm.Sequence) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.engine.Submit(now, q); err != nil {
		b.Fatal(err)
	}
	for q.State != vllm.Finished {
		now, _ = s.engine.NextStep()
		s.engine.Advance(now)
	}
	return now
}
