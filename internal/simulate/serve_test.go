package simulate

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/serve"
)

const mooncake = "../../testdata/traces/mooncake-2000.jsonl"

// A load for the fleet over HTTP that one busy processor can serve at eight times its
// speed: prompts are of a few blocks of 512 tokens.
const (
	servedRequests = 500
	servedPods     = 4
	servedBlocks   = 1500 // of 16 tokens: a pod holds half of the documents
	servedSpeed    = 8
)

// shortTrace writes a trace in Mooncake's format: questions about one of 30 documents,
// the first ones more often, six a second.
func shortTrace(t *testing.T) (path string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	var b strings.Builder
	at := 0.0
	for i := range servedRequests {
		at += rng.ExpFloat64() * 1000 / 6
		doc := int(30 * rng.Float64() * rng.Float64())
		fmt.Fprintf(&b, `{"timestamp": %.0f, "input_length": 1836, "output_length": 16, "hash_ids": [%d, %d, %d, %d]}`+"\n",
			at, 10*doc, 10*doc+1, 10*doc+2, 1000+i)
	}
	path = filepath.Join(t.TempDir(), "short.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// served runs a trace through eppctl serve --sim, as real HTTP on a scaled clock, and
// returns the share of the prompts that engines found in their caches.
func served(t *testing.T, trace string) float64 {
	t.Helper()
	c := config.Default()
	const anyPort = "127.0.0.1:0"
	c.Addresses = config.Addresses{Gateway: anyPort, Extproc: anyPort, Health: anyPort, Metrics: anyPort, Admin: anyPort, Report: anyPort}
	load, err := serve.ParseLoad(trace, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var summary bytes.Buffer
	load.Summary = &summary
	server, err := serve.New(serve.Options{
		Config: c, RecordMemory: 64 << 20, Load: load, MaxBody: 16 << 20, MaxBodies: 256 << 20, Drain: time.Minute,
		Sim: &serve.Sim{Pods: servedPods, Blocks: servedBlocks, Speed: servedSpeed, Events: true}, TLS: serve.TLS{Plaintext: true},
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

// One model, two clocks: 500 requests as they come find as much in caches through
// eppctl serve --sim as in the simulation, to within 2 points.
func TestSameHitsAsServed(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("the fleet over HTTP has to keep up with its clock")
	}
	path := shortTrace(t)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tr, err := Read(path, f, 0)
	if err != nil {
		t.Fatal(err)
	}
	cfg := fleetOf(t, tr, strconv.Itoa(servedPods), "eppctl", "random")
	cfg.Profile.Blocks = servedBlocks
	const seeds = 5 // ties fall otherwise with each
	var got, random float64
	for cfg.Seed = range uint64(seeds) {
		policies := mustRun(t, cfg).Report(ReportOptions{}).Policies
		got += *policies[0].CacheHitRatio / seeds
		random += *policies[1].CacheHitRatio / seeds
	}
	want := served(t, path)
	t.Logf("cached: %.4f served, %.4f simulated; at random %.4f", want, got, random)
	if math.Abs(got-want) > 0.02 {
		t.Errorf("cached: %.4f served, %.4f simulated", want, got)
	}
	if got < random+0.1 {
		t.Errorf("cached: %.4f, and at random %.4f: this test sees nothing", got, random)
	}
}
