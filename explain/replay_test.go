package explain_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// A record that was written and read again replays to the same bits.
func TestReplayAfterJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := drawScene(t).record()
		line, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		var back explain.Record
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatal(err)
		}
		if v, _, _ := explain.Replay(&back); !v.Identical {
			t.Fatalf("replay differs: %s\n%s", v.Difference, line)
		}
	})
}

func drawScene(t *rapid.T) scene {
	s := scene{weights: score.Default(), seed: rapid.Uint64Range(0, score.MaxSeed).Draw(t, "seed")}
	s.req.Blocks = rapid.IntRange(0, 300).Draw(t, "blocks")
	if rapid.Bool().Draw(t, "adapter") {
		s.req.Adapter = "fr"
	}
	if rapid.Bool().Draw(t, "custom") {
		s.weights.Cache, s.weights.Custom = .55, []score.CustomWeight{{Name: "cost", Weight: .05}}
		s.extra = []score.FactorValues{{Name: "cost"}}
	}
	if rapid.Bool().Draw(t, "reject") {
		s.weights.Saturation = score.Reject
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
		p := pod("sim-"+string(rune('0'+i)), 0, 0, 0)
		p.Cache, p.Utilization = drawReading(t, 300), drawReading(t, 1.2)
		p.Waiting, p.Health = drawReading(t, 24), drawReading(t, 1.1)
		p.Pending = rapid.IntRange(0, 9).Draw(t, "pending")
		p.PeerPending = max(0, rapid.IntRange(-9, 9).Draw(t, "peerPending"))
		p.Excluded = score.Reason(rapid.IntRange(0, 25).Draw(t, "reason"))
		if p.Excluded > score.ModelNotServed {
			p.Excluded = score.Eligible
		}
		if rapid.Bool().Draw(t, "loaded") {
			p.Adapters = []string{"de", "fr"}
		}
		s.pods = append(s.pods, p)
		if len(s.extra) > 0 {
			r := score.Result{Value: drawReading(t, 1.1).Value, State: score.Known}
			if !(r.Value >= 0 && r.Value < 2) {
				r = score.NotKnown("no answer")
			}
			s.extra[0].Values = append(s.extra[0].Values, r)
		}
	}
	return s
}

func drawReading(t *rapid.T, top float64) score.Reading {
	r := score.Reading{
		State:  score.State(rapid.IntRange(0, 4).Draw(t, "state")),
		Source: score.SourceMetrics, Age: time.Duration(rapid.Int64Range(0, 1e11).Draw(t, "age")),
	}
	if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
		r.Value = rapid.Float64().Draw(t, "any value")
	} else {
		r.Value = rapid.Float64Range(0, top).Draw(t, "value")
	}
	return r
}

// One changed bit in each kind of input is the first difference.
func TestReplayNamesTheDamage(t *testing.T) {
	flip := func(v *float64) *float64 { return new(*v + *v/(1<<52)) }
	for kind, change := range map[string]func(*explain.Record){
		"request":   func(r *explain.Record) { r.Request.Blocks ^= 1 },
		"weights":   func(r *explain.Record) { r.Weights.Load = *flip(&r.Weights.Load) },
		"seed":      func(r *explain.Record) { r.Seed ^= 1 },
		"pod":       func(r *explain.Record) { r.Candidates[1].Endpoint = "10.0.0.3:8000" },
		"reason":    func(r *explain.Record) { r.Candidates[1].Reason = "not-ready" },
		"cache":     func(r *explain.Record) { r.Candidates[1].Cache.Value = flip(r.Candidates[1].Cache.Value) },
		"load":      func(r *explain.Record) { r.Candidates[1].Load.Value = flip(r.Candidates[1].Load.Value) },
		"waiting":   func(r *explain.Record) { r.Candidates[1].Waiting.AgeSeconds += 1e-9 },
		"pending":   func(r *explain.Record) { r.Candidates[1].Pending ^= 1 },
		"inFlight":  func(r *explain.Record) { r.Candidates[1].InFlight ^= 1 },
		"health":    func(r *explain.Record) { r.Candidates[1].Health.Source = "manual" },
		"adapters":  func(r *explain.Record) { r.Candidates[1].Adapters.Loaded ^= 1 },
		"custom":    func(r *explain.Record) { r.Candidates[1].Custom[0].Value = flip(r.Candidates[1].Custom[0].Value) },
		"candidate": func(r *explain.Record) { r.Candidates[1].Check = "00000000" },
	} {
		t.Run(kind, func(t *testing.T) {
			rec := scenes()["custom"].record()
			change(rec)
			v, _, _ := explain.Replay(rec)
			want := `sim-1: input "` + kind + `"`
			switch kind {
			case "request", "weights", "seed":
				want = `input "` + kind + `"`
			case "candidate":
				want = "sim-1: the checksum itself"
			}
			if v.Identical || !strings.HasPrefix(v.Difference, want) {
				t.Errorf("difference = %q, want it to start with %q", v.Difference, want)
			}
		})
	}
}

func TestReplayNamesTheDifferentResult(t *testing.T) {
	for want, change := range map[string]func(*explain.Record){
		`sim-1: recorded score`:  func(r *explain.Record) { r.Candidates[2].Score += 1e-16 },
		`order: recorded`:        func(r *explain.Record) { r.Result.Order[0], r.Result.Order[1] = 0, 1 },
		`pick: recorded "sim-0"`: func(r *explain.Record) { r.Result.Pod = "sim-0" },
		`margin: recorded`:       func(r *explain.Record) { r.Result.Margin = new(.5) },
		`decided by: recorded`:   func(r *explain.Record) { r.Result.DecidedBy = "load" },
		`relaxed: recorded true`: func(r *explain.Record) { r.Result.Relaxed = true },
	} {
		rec := clearWin().record()
		change(rec)
		if v, _, _ := explain.Replay(rec); !strings.HasPrefix(v.Difference, want) {
			t.Errorf("difference = %q, want it to start with %q", v.Difference, want)
		}
	}
}

// Whatever stands in a record that was read from a file, explaining it neither
// panics nor writes what JSON can't hold.
func FuzzExplain(f *testing.F) {
	for name, s := range scenes() {
		line, err := json.Marshal(recordOf(name, s))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var rec explain.Record
		if json.Unmarshal(line, &rec) != nil || len(rec.Candidates) > 100 {
			return
		}
		retake(&rec)
		report := explain.Explain(&rec, explain.Options{Flips: 2})
		if _, err := json.Marshal(report); err != nil {
			t.Errorf("the report has no JSON: %v", err)
		}
		for _, width := range []int{80, 120} {
			for line := range strings.Lines(textOf(t, report, explain.TextOptions{Width: width, Wide: true})) {
				if n := columns(strings.TrimSuffix(line, "\n")); n > width && !strings.ContainsFunc(line, odd) {
					t.Errorf("a line of %d columns at %d: %q", n, width, line)
				}
			}
		}
		explain.Summarize(&rec)
	})
}

// retake gives every other record the results that its inputs lead to, so that
// not only damaged ones are explained.
func retake(rec *explain.Record) {
	_, in, d := explain.Replay(rec)
	if in == nil || rec.Seed%2 == 1 {
		return
	}
	rec.Result = explain.ResultOf(in, d)
	for i := range rec.Candidates {
		rec.Candidates[i].Score, rec.Candidates[i].Reason = d.Results[i].Score, d.Results[i].Reason.String()
	}
	rec.Seal()
}

// odd characters are those that the rough width of the tests is wrong about.
func odd(r rune) bool { return r > 0x2fff || r < ' ' && r != '\n' || (r > 0x300 && r < 0x2000) }
