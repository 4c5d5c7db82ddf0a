package simulate

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/serve"
)

const mooncake = "../../testdata/traces/mooncake-2000.jsonl"

// served runs the first requests of the trace through eppctl serve --sim, as real
// HTTP on a scaled clock, and returns the share of the prompts that engines found in
// their caches.
func served(t *testing.T, requests, pods int, rate float64) float64 {
	t.Helper()
	c := config.Default()
	const anyPort = "127.0.0.1:0"
	c.Addresses = config.Addresses{Gateway: anyPort, Extproc: anyPort, Health: anyPort, Metrics: anyPort, Admin: anyPort, Report: anyPort}
	load, err := serve.ParseLoad(mooncake, requests, rate)
	if err != nil {
		t.Fatal(err)
	}
	var summary bytes.Buffer
	load.Summary = &summary
	const bodies = 256 << 20
	server, err := serve.New(serve.Options{
		Config: c, RecordMemory: 64 << 20, Load: load, MaxBody: 16 << 20, MaxBodies: bodies, Drain: time.Minute,
		Sim: &serve.Sim{Pods: pods, Blocks: 32768, Speed: 20, Events: true}, TLS: serve.TLS{Plaintext: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := server.Run(ctx); err != nil {
		t.Fatalf("%v\n%s", err, &summary)
	}
	found := regexp.MustCompile(`engine cached +(\d+) of (\d+)`).FindSubmatch(summary.Bytes())
	if found == nil {
		t.Fatalf("no sum of cached tokens in\n%s", &summary)
	}
	var cached, all float64
	if _, err := fmt.Sscan(string(found[1])+" "+string(found[2]), &cached, &all); err != nil {
		t.Fatal(err)
	}
	return cached / all
}

// One model, two clocks: 500 requests of the trace, as they come, find as much in
// caches through eppctl serve --sim as in the simulation, to within 2 points.
func TestSameHitsAsServed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the fleet a minute")
	}
	const requests, pods, rate = 500, 8, 0.7
	f, err := os.Open(mooncake)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tr, err := Read(mooncake, f, requests)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Scale(rate); err != nil {
		t.Fatal(err)
	}
	want := served(t, requests, pods, rate)
	got := mustRun(t, fleetOf(t, tr, fmt.Sprint(pods), "eppctl")).Report(ReportOptions{}).Policies[0].CacheHitRatio
	t.Logf("cached: %.4f served, %.4f simulated", want, got)
	if math.Abs(got-want) > 0.02 || want < 0.05 {
		t.Errorf("cached: %.4f served, %.4f simulated", want, got)
	}
}
