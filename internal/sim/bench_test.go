package sim

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/eppctl/eppctl/internal/clock"
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
