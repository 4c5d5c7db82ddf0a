package simulate

import (
	"context"
	"math"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// A trace of what was recorded does to a fleet what the trace did that was recorded:
// prompts share what they shared, to the block.
func TestRecordsShareWhatThePromptsShared(t *testing.T) {
	for _, text := range []string{
		"gen:chat:requests=800:rate=6:turns=5:system=650",
		"gen:rag:requests=400:rate=3:documents=40",
		"gen:multi-lora:requests=800:rate=6:system=0",
	} {
		t.Run(text, func(t *testing.T) {
			trace, err := Generate(text, 3, 0)
			if err != nil {
				t.Fatal(err)
			}
			ring := record.NewRing(record.RingConfig{Key: []byte("key")})
			want := hitRatio(t, trace, ring)
			records := new(Records)
			ring.Walk(record.Query{}, func(rec *explain.Record) bool { // the newest first
				err = records.Add(rec)
				return err == nil
			})
			if err != nil {
				t.Fatal(err)
			}
			again, err := records.Trace("recorded", 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := hitRatio(t, again, nil); math.Abs(got-want) > 0.02 {
				t.Errorf("of the recorded prompts %.3f of the tokens were cached, of the prompts themselves %.3f", got, want)
			}
		})
	}
}

func hitRatio(t *testing.T, trace *Trace, ring *record.Ring) float64 {
	t.Helper()
	policy, err := ParsePolicy("eppctl", score.Default())
	if err != nil {
		t.Fatal(err)
	}
	profile, err := ProfileNamed("")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := profile.Fleet("4")
	if err != nil {
		t.Fatal(err)
	}
	cfg := &Config{Trace: trace, Profile: profile, Pods: pods, Policies: []*Policy{policy}, Seed: 5}
	if ring != nil {
		cfg.Recorder = ring
	}
	runs, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return *runs.Report(ReportOptions{}).Policies[0].CacheHitRatio
}
