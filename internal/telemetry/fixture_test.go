package telemetry

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// secrets must stand nowhere: a fixture's entry holds each of them.
var secrets = []string{"Bearer-s3cret", "Once-upon-a-prompt"}

// newEntry is a decision over the pods, taken by the real engine.
func newEntry(pods ...score.PodState) *record.Entry {
	weights := score.Default()
	return decided(&score.Inputs{
		Request: &score.InferenceRequest{
			ID: "req-1", Model: "llama", Tokens: make([]uint32, 64), Count: 64, Blocks: 4,
			Headers: map[string][]string{"Authorization": {secrets[0]}}, Client: secrets[1],
		},
		Pods: pods, Weights: &weights, Seed: 7,
	})
}

// decided is the entry of what the engine makes of the inputs.
func decided(in *score.Inputs) *record.Entry {
	d := &score.Decision{}
	in.Decide(d)
	return &record.Entry{
		DecisionID: [16]byte{0xaa, 0xbb, 6: 0x40, 8: 0x80, 15: 1}, RequestID: in.Request.ID, TimeScale: 1, Policy: "scores",
		Path: "/v1/chat/completions", Model: "llama-latest", Prompts: 1, PrefixTokens: 64, BlockSize: 16,
		TokensFrom: "ids", Fingerprints: []uint64{1, 2, 3, 4}, Inputs: in, Decision: d, Picked: d.Winner,
		Timings: record.Timings{
			Parse: time.Millisecond, Lookup: 3 * time.Microsecond, Scorers: 0, Decide: 2 * time.Microsecond,
			Total: time.Millisecond + 5*time.Microsecond,
		},
		PredictedCached: 48,
	}
}

// pod is a pod that is known in everything.
func pod(name string, blocks, waiting float64) score.PodState {
	p := score.NewPod(name, "10.0.0."+name[len(name)-1:]+":8000")
	p.Cache = score.Read(blocks, score.SourceReport)
	p.Utilization = score.Read(.5, score.SourceReport)
	p.Waiting = score.Read(waiting, score.SourceMetrics)
	p.Health = score.Read(1, score.SourceProbe)
	p.AdapterState = score.Known
	return p
}

// logged runs f with a logger of the level and returns the lines that it wrote.
func logged(t *testing.T, level slog.Level, f func(*slog.Logger)) []map[string]any {
	t.Helper()
	var buf bytes.Buffer
	v := &slog.LevelVar{}
	v.Set(level)
	f(Logger(&buf, v))
	for _, secret := range secrets {
		if strings.Contains(buf.String(), secret) {
			t.Errorf("the log holds %q:\n%s", secret, buf.String())
		}
	}
	var lines []map[string]any
	for line := range strings.Lines(buf.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		lines = append(lines, fields)
	}
	return lines
}

func messages(lines []map[string]any) []string {
	var msgs []string
	for _, line := range lines {
		msgs = append(msgs, line["level"].(string)+" "+line["msg"].(string))
	}
	return msgs
}

// ring is a recorder with a fixed key.
func ring() *record.Ring { return record.NewRing(record.RingConfig{Key: []byte("key")}) }
