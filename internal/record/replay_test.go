package record_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// Whatever was decided: the record that is read back from JSON is the one that
// the ring gave, and decides again to the same bits.
func TestRecordReplaysIdentically(t *testing.T) {
	ring := record.NewRing(record.RingConfig{Bytes: 1 << 20})
	rapid.Check(t, func(t *rapid.T) {
		e := drawEntry(t)
		h := ring.Append(e)
		rec, ok := ring.Load(h)
		if !ok {
			t.Fatalf("Load(%d) found nothing", h)
		}
		if again, _ := ring.Load(h); !cmp.Equal(rec, again) {
			t.Fatalf("the same record twice: %s", cmp.Diff(rec, again))
		}
		if rendered := ring.Render(e); !cmp.Equal(rec, rendered) {
			t.Fatalf("rendered without the ring: %s", cmp.Diff(rec, rendered))
		}
		checkAgainst(t, rec, e)
		var line bytes.Buffer
		if err := record.Encode(&line, rec); err != nil {
			t.Fatal(err)
		}
		back, err := record.NewReader(&line).Next()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rec, back); diff != "" {
			t.Fatalf("the record changed on the way through JSON: %s", diff)
		}
		if v, _, _ := explain.Replay(back); !v.Identical {
			t.Fatalf("replay: %s", v.Difference)
		}
	})
}

// checkAgainst holds the record to the decision itself, so that record and replay
// can't agree on something else.
func checkAgainst(t *rapid.T, rec *explain.Record, e *record.Entry) {
	want := explain.ResultOf(e.Inputs, e.Decision)
	if e.Policy != "scores" {
		p := &e.Inputs.Pods[e.Picked]
		want.Index, want.Pod, want.Endpoint, want.Score = e.Picked, p.Pod, p.Endpoint, e.Decision.Results[e.Picked].Score
	}
	if diff := cmp.Diff(want, rec.Result); diff != "" {
		t.Fatalf("result: %s", diff)
	}
	for i := range rec.Candidates {
		c, r := &rec.Candidates[i], &e.Decision.Results[i]
		if c.Reason != r.Reason.String() || math.Float64bits(c.Score) != math.Float64bits(r.Score) {
			t.Fatalf("candidate %d is %q with %v, want %q with %v", i, c.Reason, c.Score, r.Reason, r.Score)
		}
	}
}

func TestRecordHoldsWhatWasHandedOver(t *testing.T) {
	ring := record.NewRing(record.RingConfig{})
	e := plainEntry(7, 3)
	e.RequestIDReplaced, e.ModelUnchecked, e.Stream, e.TimeScale = true, true, true, 20
	e.Inputs.Pods[1].Notes = &score.Notes{score.QueueDepth: "HTTP 404 on port 8000"}
	rec, _ := ring.Load(mustAppend(t, ring, e))
	rec.Request.Chain, rec.Candidates, rec.Check = nil, rec.Candidates[1:2], nil
	rec.Candidates[0].Check = ""
	got, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(`
{
  "apiVersion": "eppctl/v1",
  "kind": "Decision",
  "decisionID": "00000000-0000-4000-8000-000000000007",
  "requestID": "request-000007",
  "time": "2026-11-30T12:00:07Z",
  "timeScale": 20,
  "requestIDReplaced": true,
  "policy": "scores",
  "request": {
    "path": "/v1/chat/completions",
    "model": "llama",
    "baseModel": "llama-8b",
    "adapter": "fr",
    "modelUnchecked": true,
    "promptTokens": 4096,
    "prompts": 1,
    "tokensFrom": "approximate",
    "blockSize": 16,
    "blocks": 256,
    "stream": true,
    "prefixTokens": 4096
  },
  "weights": {
    "cache": 0.6,
    "load": 0.2,
    "queue": 0.1,
    "health": 0.05,
    "adapter": 0.05,
    "maxQueue": 20,
    "maxUtilization": 1,
    "saturation": "relax",
    "generation": 0
  },
  "seed": 7,
  "candidates": [
    {
      "pod": "vllm-llama-8b-00001",
      "endpoint": "10.0.0.1:8000",
      "cache": {
        "value": 37,
        "state": "known",
        "source": "report",
        "ageSeconds": 1.2
      },
      "load": {
        "value": 0.01,
        "state": "known",
        "source": "kv-usage",
        "ageSeconds": 0.12
      },
      "waiting": {
        "value": 1,
        "state": "known",
        "source": "metrics",
        "ageSeconds": 0.12,
        "detail": "HTTP 404 on port 8000"
      },
      "pending": 1,
      "inFlight": 1,
      "health": {
        "value": 1,
        "state": "known",
        "source": "probe",
        "ageSeconds": 0
      },
      "adapters": {
        "state": "known",
        "match": true,
        "loaded": 2,
        "max": 4
      },
      "score": 0.47471875
    }
  ],
  "result": {
    "pod": "vllm-llama-8b-00002",
    "endpoint": "10.0.0.2:8000",
    "index": 2,
    "score": 0.5494375,
    "margin": 0.07471875,
    "decidedBy": "cacheMatch",
    "relaxed": false,
    "order": [
      2,
      1,
      0
    ]
  },
  "timings": {
    "bodySeconds": null,
    "parseSeconds": 0.00001234,
    "tokensSeconds": 0.000005,
    "lookupSeconds": 9e-7,
    "scorersSeconds": 0,
    "decideSeconds": 0.00000123,
    "totalSeconds": 0.00002
  },
  "outcome": {
    "state": "pending",
    "servedEndpoint": "",
    "ttftSeconds": null,
    "durationSeconds": null,
    "promptTokens": null,
    "cachedTokens": null,
    "outputTokens": null,
    "predictedCachedTokens": 100,
    "attempts": null
  }
}`)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// Nobody timed tokenising: that is not the same as no time.
func TestTokensThatWereNotTimedAreLeftOut(t *testing.T) {
	e := plainEntry(1, 1)
	e.Timings.Tokens = 0
	rec := decoded(t, e)
	if rec.Timings.Tokens != nil {
		t.Errorf("tokens took %v, want null", *rec.Timings.Tokens)
	}
	line, err := json.Marshal(rec)
	if err != nil || bytes.Contains(line, []byte("tokensSeconds")) {
		t.Errorf("the record has tokensSeconds (%v): %s", err, line)
	}
}

// One changed bit in each kind of input is reported as the first difference.
func TestReplayNamesTheChangedInput(t *testing.T) {
	flipped := func(v float64) *float64 { return new(math.Float64frombits(math.Float64bits(v) ^ 1)) }
	second := func(r *explain.Record) *explain.Candidate { return &r.Candidates[1] }
	for _, tc := range []struct {
		kind   string
		change func(*explain.Record)
	}{
		{"request", func(r *explain.Record) { r.Request.PromptTokens ^= 1 }},
		{"request", func(r *explain.Record) { r.Request.Blocks ^= 1 }},
		{"request", func(r *explain.Record) { r.Request.Adapter = "fs" }},
		{"weights", func(r *explain.Record) { r.Weights.Queue = *flipped(r.Weights.Queue) }},
		{"weights", func(r *explain.Record) { r.Weights.MaxQueue ^= 1 }},
		{"weights", func(r *explain.Record) { r.Weights.Generation ^= 1 }},
		{"weights", func(r *explain.Record) { r.Weights.Custom[0].Weight = *flipped(r.Weights.Custom[0].Weight) }},
		{"request", func(r *explain.Record) { r.Request.Model = "llamb" }},
		{"request", func(r *explain.Record) { r.Request.Stream = !r.Request.Stream }},
		{"id", func(r *explain.Record) { r.RequestID += "x" }},
		{"time", func(r *explain.Record) { r.Time = r.Time.Add(1) }},
		{"timeScale", func(r *explain.Record) { r.TimeScale = *flipped(r.TimeScale) }},
		{"policy", func(r *explain.Record) { r.Policy = "random" }},
		{"chain", func(r *explain.Record) { r.Request.Chain[1] = r.Request.Chain[0] }},
		{"seed", func(r *explain.Record) { r.Seed ^= 1 }},
		{"pod", func(r *explain.Record) { second(r).Pod += "x" }},
		{"pod", func(r *explain.Record) { second(r).Endpoint = "10.0.0.1:8001" }},
		{"reason", func(r *explain.Record) { second(r).Reason = "terminating" }},
		{"cache", func(r *explain.Record) { second(r).Cache.Value = flipped(*second(r).Cache.Value) }},
		{"cache", func(r *explain.Record) { second(r).Cache.AgeSeconds = *flipped(second(r).Cache.AgeSeconds) }},
		{"load", func(r *explain.Record) { second(r).Load.Value = flipped(*second(r).Load.Value) }},
		{"load", func(r *explain.Record) { second(r).Load.Source = "dcgm" }},
		{"waiting", func(r *explain.Record) { second(r).Waiting.Value = flipped(*second(r).Waiting.Value) }},
		{"waiting", func(r *explain.Record) { second(r).Waiting.State = "clamped" }},
		{"pending", func(r *explain.Record) { second(r).Pending ^= 1 }},
		{"pending", func(r *explain.Record) { second(r).PeerPending ^= 1 }},
		{"inFlight", func(r *explain.Record) { second(r).InFlight ^= 1 }},
		{"health", func(r *explain.Record) { second(r).Health.Value = flipped(*second(r).Health.Value) }},
		{"adapters", func(r *explain.Record) { second(r).Adapters.Match = !second(r).Adapters.Match }},
		{"adapters", func(r *explain.Record) { second(r).Adapters.Loaded ^= 1 }},
		{"custom", func(r *explain.Record) { second(r).Custom[0].Value = flipped(*second(r).Custom[0].Value) }},
		{"custom", func(r *explain.Record) { second(r).Custom[0].Detail = "spot" }},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			rec := decoded(t, customEntry())
			if v, _, _ := explain.Replay(rec); !v.Identical {
				t.Fatalf("unchanged: %s", v.Difference)
			}
			tc.change(rec)
			v, _, _ := explain.Replay(rec)
			if v.Identical || !strings.Contains(v.Difference, `input "`+tc.kind+`"`) {
				t.Errorf("replay said %+v, want the input %q named", v, tc.kind)
			}
		})
	}
}

func customEntry() *record.Entry {
	e := plainEntry(1, 4)
	in := e.Inputs
	in.Weights = in.Weights.Clone()
	in.Weights.Cache, in.Weights.Custom = .55, []score.CustomWeight{{Name: "cost", Weight: .05}}
	in.Extra = []score.FactorValues{{Name: "cost", Values: slices.Repeat([]score.Result{score.Scored(.25, "on demand")}, 4)}}
	return entry(1, in)
}

// decoded is the entry's record after a ring and JSON.
func decoded(t *testing.T, e *record.Entry) *explain.Record {
	t.Helper()
	ring := record.NewRing(record.RingConfig{})
	rec, _ := ring.Load(mustAppend(t, ring, e))
	var line bytes.Buffer
	if err := record.Encode(&line, rec); err != nil {
		t.Fatal(err)
	}
	back, err := record.NewReader(&line).Next()
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func TestCustomAnswersAsTheEngineTookThem(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer *score.Result
		state  string
		value  *float64
		detail string
	}{
		{"no answer", nil, "unknown", nil, "no answer"},
		{"a value", new(score.Scored(.5, "fine")), "known", new(.5), "fine"},
		{"not known", new(score.NotKnown("panicked")), "unknown", nil, "panicked"},
		{"NaN", new(score.Scored(math.NaN(), "")), "unknown", nil, "NaN"},
		{"infinite", new(score.Scored(math.Inf(1), "")), "unknown", nil, "+Inf"},
		{"above 1", new(score.Scored(7, "")), "known", new(7.0), ""},
		{"a detail that is too long", new(score.Scored(1, strings.Repeat("ä", 150))), "known", new(1.0), strings.Repeat("ä", 100)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := customEntry().Inputs
			in.Extra = nil
			if tc.answer != nil {
				in.Extra = []score.FactorValues{{Name: "cost", Values: []score.Result{*tc.answer}}}
			}
			rec := decoded(t, entry(1, in))
			want := explain.CustomValue{Name: "cost", State: tc.state, Value: tc.value, Detail: tc.detail}
			if diff := cmp.Diff(want, rec.Candidates[0].Custom[0]); diff != "" {
				t.Error(diff)
			}
			if v, _, _ := explain.Replay(rec); !v.Identical {
				t.Error(v.Difference)
			}
		})
	}
}

func TestChainIsKeyedAndSparse(t *testing.T) {
	keyed := func(key string, tokens, blockSize int) []string {
		ring := record.NewRing(record.RingConfig{Key: []byte(key)})
		e := plainEntry(1, 1)
		e.BlockSize, e.Fingerprints = blockSize, nil
		for i := range tokens / blockSize {
			e.Fingerprints = append(e.Fingerprints, uint64(i+1))
		}
		rec, _ := ring.Load(mustAppend(t, ring, e))
		return rec.Request.Chain
	}
	t.Run("the beginning, one per 512 tokens, and the last block", func(t *testing.T) {
		for _, tc := range []struct{ tokens, blockSize, want int }{
			{15, 16, 0},
			{16, 16, 1},   // block 1
			{48, 16, 3},   // 1, 2, and 3 as the last
			{511, 16, 6},  // 1, 2, 4, 8, 16 and 31
			{512, 16, 6},  // 32 in its place
			{528, 16, 7},  // and 33
			{1024, 16, 7}, // 64 in its place
			{4096, 16, 13},
			{131072, 16, 261},
			{140000, 16, 262},
			{4096, 1024, 4},
			{1000, 300, 3},
		} {
			if got := keyed("k", tc.tokens, tc.blockSize); len(got) != tc.want {
				t.Errorf("%d tokens in blocks of %d: %d ids, want %d", tc.tokens, tc.blockSize, len(got), tc.want)
			}
		}
	})
	t.Run("equal prefixes have equal ids under one key only", func(t *testing.T) {
		short, long, other := keyed("k", 1024, 16), keyed("k", 4096, 16), keyed("l", 4096, 16)
		if !slices.Equal(short, long[:len(short)]) {
			t.Errorf("ids %v and %v of a shared prefix differ", short, long[:len(short)])
		}
		if slices.Contains(other, long[0]) || slices.Contains(long, "0000000000000020") {
			t.Errorf("ids %v and %v: not keyed", long, other)
		}
	})
	t.Run("an own key for each process unless one is given", func(t *testing.T) {
		if a, b := keyed("", 512, 16), keyed("", 512, 16); slices.Equal(a, b) {
			t.Errorf("two rings without a key give the same ids %v", a)
		}
	})
	t.Run("the id is an HMAC-SHA256 cut to 8 bytes", func(t *testing.T) {
		// printf '\x20\0\0\0\0\0\0\0' | openssl dgst -sha256 -hmac k
		if got := keyed("k", 512, 16)[5]; got != "a3ae7af292837a18" {
			t.Errorf("id %s", got)
		}
	})
}
