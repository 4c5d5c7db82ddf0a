package simulate

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// BenchmarkSimulate runs traces through the picker on one processor: those of the
// service by their length, and chats by the number of pods, five requests a second on
// each four. events are steps of engines, messages and arrivals; req/s and events/s are
// of the wall's time. Its unit is BenchmarkFingerprint/tokens=4096 of internal/prefix.
func BenchmarkSimulate(b *testing.B) {
	for _, requests := range []int{500, 1000, 2000} {
		b.Run(fmt.Sprintf("mooncake/requests=%d/pods=16", requests), func(b *testing.B) {
			f, err := os.Open(mooncake)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			tr, err := Read(mooncake, f, requests)
			if err != nil {
				b.Fatal(err)
			}
			benchmark(b, tr, 16, "eppctl")
		})
	}
	for _, pods := range []int{8, 32, 128, 512} {
		tr, err := Generate(fmt.Sprintf("gen:chat:requests=2000:rate=%d", pods*5/4), 1, 0)
		if err != nil {
			b.Fatal(err)
		}
		for _, policy := range []string{"eppctl", "least-connections"} {
			b.Run(fmt.Sprintf("chat/policy=%s/pods=%d", policy, pods), func(b *testing.B) { benchmark(b, tr, pods, policy) })
		}
	}
}

func benchmark(b *testing.B, tr *Trace, pods int, policy string) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	cfg := fleetOf(b, tr, fmt.Sprint(pods), policy)
	b.ReportAllocs()
	events := uint64(0)
	for b.Loop() {
		events += mustRun(b, cfg).Runs[0].Events
	}
	seconds := b.Elapsed().Seconds()
	requests := float64(len(tr.Requests) * b.N)
	b.ReportMetric(requests/seconds, "req/s")
	b.ReportMetric(float64(events)/seconds, "events/s")
	b.ReportMetric(seconds*1e9/requests, "ns/req")
}
