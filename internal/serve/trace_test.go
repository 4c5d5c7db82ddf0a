package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/score"
)

const trace = "../../testdata/traces/mooncake-2000.jsonl"

// byLength is a custom scorer that knows a value for every pod.
type byLength struct{}

func (byLength) Score(_ context.Context, req *score.InferenceRequest, pod *score.PodState, _ *score.Summary) score.Result {
	return score.Scored(1/float64(len(pod.Pod)+req.Count), "by the length of names and prompts")
}

// sent runs the first requests of the trace through a picker with a custom
// scorer, and returns it, its summary, and the export of all its records.
func sent(t *testing.T, requests int) (r *rig, summary sums, export string) {
	t.Helper()
	opts := serveOptions(8)
	opts.Sim.Blocks = 65536
	opts.Config.Weights = map[string]float64{"cache": .55}
	opts.Custom = []score.CustomWeight{{Name: "length", Weight: .05}}
	opts.Scorers = []picker.Custom{{Name: "length", Scorer: byLength{}}}
	opts.Config.ScorerDeadlineMs = 5000 // a busy machine is no reason to fail here
	load, err := ParseLoad(trace, requests, 1)
	if err != nil {
		t.Fatal(err)
	}
	read, written := io.Pipe()
	load.Stay, load.Summary = true, written
	opts.Load = load
	r = start(t, opts)
	text := make([]byte, 64<<10) // it is written in one piece
	n, err := read.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	status, export := r.fetch("http://" + r.at.Admin + "/v1/decisions?format=jsonl")
	if status != 200 {
		t.Fatalf("export: status %d: %s", status, export)
	}
	return r, readSums(string(text[:n])), export
}

func TestTraceThroughHTTP(t *testing.T) {
	requests := 120
	if testing.Short() {
		requests = 30
	}
	r, summary, export := sent(t, requests)
	for name, want := range map[string]string{
		"requests": fmt.Sprintf("%d in ", requests), "errors": "0", "refused": "0 decisions", // a busy machine may relax some
		"replays": fmt.Sprintf("identical, %d of %[1]d decisions", requests), "ledger": "0 in flight",
	} {
		if !strings.HasPrefix(summary[name], want) {
			t.Errorf("%s %q, want %q", name, summary[name], want)
		}
	}
	r.inFlight(0)
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	r.must(os.WriteFile(file, []byte(export), 0o600))

	if replay, status := replayedAll(t, file); status != 0 || replay.Decisions != requests || replay.Identical != requests || replay.FirstDifference != nil {
		t.Errorf("another process replays %+v, status %d", replay, status)
	}
	changed := strings.Replace(export, `"seed":`, `"seed":1`, 1)
	r.must(os.WriteFile(file+".changed", []byte(changed), 0o600))
	replay, status := replayedAll(t, file+".changed")
	if status != 1 || replay.Decisions != requests || replay.Identical != requests-1 {
		t.Errorf("with one seed changed another process replays %+v, status %d", replay, status)
	}
	if d := replay.FirstDifference; d == nil || !strings.Contains(d.Difference, "seed") {
		t.Errorf("with one seed changed the difference is %+v", d)
	}
	r.must(os.WriteFile(file+".empty", nil, 0o600))
	if _, status := replayedAll(t, file+".empty"); status != 3 {
		t.Errorf("nothing to replay: status %d, want 3", status)
	}
	if report := explained(t, file, "latest"); !report.Replay.Identical || report.RequestID == "" {
		t.Errorf("another process explains the latest as %+v", report.Replay)
	}
	oneChangedBit(t, export)
}

// replays is what a new process says of all decisions in a file.
type replays struct {
	Decisions, Identical int
	FirstDifference      *struct{ RequestID, Difference string }
}

func replayedAll(t *testing.T, file string) (r replays, status int) {
	t.Helper()
	out, status := eppctl(t, "decisions", "-f", file, "--replay", "-o", "json")
	if out != "" {
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
	}
	return r, status
}

// explanation is what a script reads of one.
type explanation struct {
	RequestID string
	Replay    explain.Verification
}

// explained is what a new process says of a request in a file.
func explained(t *testing.T, file, id string) (report explanation) {
	t.Helper()
	out, status := eppctl(t, "explain", id, "-f", file, "-o", "json")
	if status != 0 {
		t.Fatalf("explain: status %d", status)
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// bit flips the lowest bit of a number.
func bit(v *float64) { *v = math.Float64frombits(math.Float64bits(*v) ^ 1) }

// oneChangedBit changes one bit in each kind of input of one exported record,
// and asks a new process each time.
func oneChangedBit(t *testing.T, export string) {
	line := richest(t, export)
	load := func() *explain.Record {
		rec := new(explain.Record)
		if err := json.Unmarshal([]byte(line), rec); err != nil {
			t.Fatal(err)
		}
		return rec
	}
	at := load().Result.Index
	pod := load().Candidates[at].Pod
	for _, tt := range []struct {
		name   string
		change func(rec *explain.Record, c *explain.Candidate)
		want   string // in the difference
	}{
		{"cache", func(_ *explain.Record, c *explain.Candidate) { bit(c.Cache.Value) }, pod + `: input "cache"`},
		{"age of the cache", func(_ *explain.Record, c *explain.Candidate) { bit(&c.Cache.AgeSeconds) }, pod + `: input "cache"`},
		{"load", func(_ *explain.Record, c *explain.Candidate) { bit(c.Load.Value) }, pod + `: input "load"`},
		{"source of the load", func(_ *explain.Record, c *explain.Candidate) { c.Load.Source = "kvUsage" }, `load`},
		{"waiting", func(_ *explain.Record, c *explain.Candidate) { bit(c.Waiting.Value) }, pod + `: input "waiting"`},
		{"pending", func(_ *explain.Record, c *explain.Candidate) { c.Pending ^= 1 }, pod + `: input "pending"`},
		{"in flight", func(_ *explain.Record, c *explain.Candidate) { c.InFlight ^= 1 }, pod + `: input "inFlight"`},
		{"health", func(_ *explain.Record, c *explain.Candidate) { bit(c.Health.Value) }, pod + `: input "health"`},
		{"number of adapters", func(_ *explain.Record, c *explain.Candidate) { c.Adapters.Loaded ^= 1 }, pod + `: input "adapters"`},
		{"adapter there", func(_ *explain.Record, c *explain.Candidate) { c.Adapters.Match = !c.Adapters.Match }, pod + `: input "adapters"`},
		{"state", func(_ *explain.Record, c *explain.Candidate) { c.Health.State = "stale" }, pod + `: input "health"`},
		{"custom", func(_ *explain.Record, c *explain.Candidate) { bit(c.Custom[0].Value) }, pod + `: input "custom"`},
		{"detail of custom", func(_ *explain.Record, c *explain.Candidate) { c.Custom[0].Detail += "!" }, pod + `: input "custom"`},
		{"name of the pod", func(_ *explain.Record, c *explain.Candidate) { c.Pod = flip(c.Pod) }, `"pod"`},
		{"endpoint", func(_ *explain.Record, c *explain.Candidate) { c.Endpoint = flip(c.Endpoint) }, pod + `: input "pod"`},
		{"reason", func(_ *explain.Record, c *explain.Candidate) { c.Reason = "not-ready" }, pod + `: input "reason"`},
		{"weight of cache", func(rec *explain.Record, _ *explain.Candidate) { bit(&rec.Weights.Cache) }, `input "weights"`},
		{"weight of load", func(rec *explain.Record, _ *explain.Candidate) { bit(&rec.Weights.Load) }, `input "weights"`},
		{"weight of queue", func(rec *explain.Record, _ *explain.Candidate) { bit(&rec.Weights.Queue) }, `input "weights"`},
		{"weight of health", func(rec *explain.Record, _ *explain.Candidate) { bit(&rec.Weights.Health) }, `input "weights"`},
		{"weight of adapter", func(rec *explain.Record, _ *explain.Candidate) { bit(&rec.Weights.Adapter) }, `input "weights"`},
		{"weight of custom", func(rec *explain.Record, _ *explain.Candidate) { bit(&rec.Weights.Custom[0].Weight) }, `input "weights"`},
		{"maxQueue", func(rec *explain.Record, _ *explain.Candidate) { rec.Weights.MaxQueue ^= 1 }, `input "weights"`},
		{"maxUtilization", func(rec *explain.Record, _ *explain.Candidate) { bit(&rec.Weights.MaxUtilization) }, `input "weights"`},
		{"saturation", func(rec *explain.Record, _ *explain.Candidate) { rec.Weights.Saturation = "reject" }, `input "weights"`},
		{"generation", func(rec *explain.Record, _ *explain.Candidate) { rec.Weights.Generation ^= 1 }, `input "weights"`},
		{"seed", func(rec *explain.Record, _ *explain.Candidate) { rec.Seed ^= 1 }, `input "seed"`},
		{"blocks", func(rec *explain.Record, _ *explain.Candidate) { rec.Request.Blocks ^= 1 }, `input "request"`},
		{"block size", func(rec *explain.Record, _ *explain.Candidate) { rec.Request.BlockSize ^= 1 }, `input "request"`},
		{"tokens", func(rec *explain.Record, _ *explain.Candidate) { rec.Request.PromptTokens ^= 1 }, `input "request"`},
		{"model", func(rec *explain.Record, _ *explain.Candidate) { rec.Request.Base = flip(rec.Request.Base) }, `input "request"`},
		{"adapter", func(rec *explain.Record, _ *explain.Candidate) { rec.Request.Adapter = "a" }, `input "request"`},
		{"score", func(_ *explain.Record, c *explain.Candidate) { bit(&c.Score) }, pod + `: recorded score`},
		{"pick", func(rec *explain.Record, _ *explain.Candidate) { rec.Result.Pod = flip(rec.Result.Pod) }, `pick: recorded`},
		{"margin", func(rec *explain.Record, _ *explain.Candidate) { bit(rec.Result.Margin) }, `margin: recorded`},
		{"order", func(rec *explain.Record, _ *explain.Candidate) { rec.Result.Order[0] ^= 1 }, `order: recorded`},
	} {
		t.Run("one bit of "+tt.name, func(t *testing.T) {
			rec := load()
			tt.change(rec, &rec.Candidates[at])
			raw, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "changed.jsonl")
			if err := os.WriteFile(file, append(raw, '\n'), 0o600); err != nil {
				t.Fatal(err)
			}
			report := explained(t, file, rec.DecisionID)
			if report.Replay.Identical || !strings.Contains(report.Replay.Difference, tt.want) {
				t.Errorf("replay says %+v, want a difference with %q", report.Replay, tt.want)
			}
		})
	}
}

// flip changes the lowest bit of the last byte.
func flip(s string) string { return s[:len(s)-1] + string(s[len(s)-1]^1) }

// richest is the line of a record that has every kind of input: the winner's
// values are all known and there was a runner-up.
func richest(t *testing.T, export string) string {
	t.Helper()
	for line := range strings.Lines(export) {
		rec := new(explain.Record)
		if err := json.Unmarshal([]byte(line), rec); err != nil {
			t.Fatal(err)
		}
		c := &rec.Candidates[rec.Result.Index]
		known := rec.Result.Margin != nil && rec.Request.Blocks > 0 && len(c.Custom) == 1 && c.Custom[0].State == "known"
		for _, in := range []explain.Input{c.Cache, c.Load, c.Waiting, c.Health} {
			known = known && in.Value != nil && in.State == "known"
		}
		if known {
			return line
		}
	}
	t.Fatal("no record has every kind of input")
	return ""
}
