package score_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/score"
)

// saved is one decision of the fixture: inputs, and the bits that came out.
type saved struct {
	Preset  string      `json:"preset"`
	Cost    float64     `json:"cost,omitempty"` // weight of a custom scorer, taken from cache
	Reject  bool        `json:"reject,omitempty"`
	Seed    uint64      `json:"seed"`
	Blocks  int         `json:"blocks"`
	Adapter bool        `json:"adapter,omitempty"`
	Pods    []savedPod  `json:"pods"`
	Winner  int         `json:"winner"`
	By      string      `json:"by"`
	Scores  []savedBits `json:"scores"` // what each pod scored or would have scored
	Reasons []string    `json:"reasons"`
}

// savedBits is a float64 as 16 hex digits.
type savedBits string

// savedPod is a candidate in the order cache, load, waiting, health, custom
// value; states are the digits of score.State in the same order, then the
// adapters' state.
type savedPod struct {
	Values  [5]float64 `json:"v"`
	States  string     `json:"s"`
	Pending int        `json:"p,omitempty"`
	Loaded  bool       `json:"a,omitempty"`
	Reason  int        `json:"x,omitempty"`
}

func (s *saved) inputs(t *testing.T) *score.Inputs {
	t.Helper()
	w := preset(t, s.Preset)
	if s.Cost > 0 {
		w.Cache -= s.Cost
		w.Custom = []score.CustomWeight{{Name: "cost", Weight: s.Cost}}
	}
	if s.Reject {
		w.Saturation = score.Reject
	}
	in := &score.Inputs{Request: &score.InferenceRequest{Blocks: s.Blocks}, Weights: w, Seed: s.Seed}
	if s.Adapter {
		in.Request.Adapter = "fr"
	}
	cost := score.FactorValues{Name: "cost"}
	for i, from := range s.Pods {
		state := func(k int) score.State { return score.State(from.States[k] - '0') }
		p := score.NewPod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("10.0.0.%d:8000", i))
		for k, to := range []*score.Reading{&p.Cache, &p.Utilization, &p.Waiting, &p.Health} {
			*to = score.Reading{Value: from.Values[k], State: state(k)}
		}
		cost.Values = append(cost.Values, score.Result{Value: from.Values[4], State: state(4)})
		p.AdapterState, p.Pending, p.Excluded = state(5), from.Pending, score.Reason(from.Reason)
		if from.Loaded {
			p.Adapters = []string{"fr"}
		}
		in.Pods = append(in.Pods, p)
	}
	if s.Cost > 0 {
		in.Extra = []score.FactorValues{cost}
	}
	return in
}

// outcome writes what the engine makes of the inputs into s.
func (s *saved) outcome(t *testing.T) {
	t.Helper()
	in := s.inputs(t)
	var d score.Decision
	in.Decide(&d)
	s.Winner, s.By, s.Scores, s.Reasons = d.Winner, d.DecidedBy.Name(in.Weights), nil, nil
	for _, r := range d.Results {
		s.Scores = append(s.Scores, savedBits(fmt.Sprintf("%016x", math.Float64bits(r.WouldScore))))
		s.Reasons = append(s.Reasons, r.Reason.String())
	}
}

// The same inputs give the same bits on every platform: a record from an arm64
// picker replays on a laptop.
func TestThousandDecisionsToTheBit(t *testing.T) {
	path := filepath.Join("testdata", "decisions-1000.jsonl.gz")
	if golden.Update() {
		writeFixture(t, path)
	}
	list := readFixture(t, path)
	if len(list) != 1000 {
		t.Fatalf("%d decisions, want 1000", len(list))
	}
	for n, want := range list {
		got := want
		got.outcome(t)
		if got.Winner != want.Winner || got.By != want.By {
			t.Errorf("decision %d: winner %d by %s, want %d by %s", n, got.Winner, got.By, want.Winner, want.By)
		}
		for i := range want.Scores {
			if got.Scores[i] != want.Scores[i] || got.Reasons[i] != want.Reasons[i] {
				t.Errorf("decision %d, pod %d: %s %s, want %s %s", n, i, got.Scores[i], got.Reasons[i], want.Scores[i], want.Reasons[i])
			}
		}
	}
}

// The fixture would notice an engine that fuses multiplication and addition.
func TestTheFixtureIsSensitiveToFusing(t *testing.T) {
	differ := 0
	for _, s := range readFixture(t, filepath.Join("testdata", "decisions-1000.jsonl.gz")) {
		in := s.inputs(t)
		var d score.Decision
		in.Decide(&d)
		for i, r := range d.Results {
			fused := 0.0
			for f, v := range r.Values {
				fused = math.FMA(in.Weights.Weight(f), v, fused)
			}
			if len(in.Weights.Custom) == 0 && math.Float64bits(fused) != bitsOf(t, s.Scores[i]) {
				differ++
			}
		}
	}
	if differ < 100 {
		t.Errorf("only %d scores would differ", differ)
	}
}

func bitsOf(t *testing.T, hex savedBits) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(string(hex), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func readFixture(t *testing.T, path string) []saved {
	t.Helper()
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var list []saved
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s saved
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func writeFixture(t *testing.T, path string) {
	t.Helper()
	var out bytes.Buffer
	packed, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	rng := rand.New(rand.NewPCG(2026, 1130))
	for range 1000 {
		s := randomDecision(rng)
		s.outcome(t)
		line, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(packed, "%s\n", line)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func randomDecision(rng *rand.Rand) saved {
	names := score.PresetNames()
	s := saved{
		Preset: names[rng.IntN(len(names))], Reject: rng.IntN(4) == 0, Seed: rng.Uint64() & score.MaxSeed,
		Blocks: rng.IntN(400), Adapter: rng.IntN(2) == 0,
	}
	if rng.IntN(3) == 0 {
		s.Cost = float64(1+rng.IntN(20)) / 100
	}
	if rng.IntN(8) == 0 {
		s.Blocks = 0
	}
	coarse := rng.IntN(5) == 0 // equal pods, for the ties
	for range 1 + rng.IntN(5) {
		s.Pods = append(s.Pods, randomPod(rng, s.Blocks, coarse))
	}
	return s
}

func randomPod(rng *rand.Rand, blocks int, coarse bool) savedPod {
	p := savedPod{
		Values: [5]float64{
			float64(rng.IntN(blocks + 2)), rng.Float64() * 1.1, float64(rng.IntN(24)), 1.05 - rng.Float64()*rng.Float64(), rng.Float64(),
		},
		Pending: max(0, rng.IntN(8)-4), Loaded: rng.IntN(2) == 0,
	}
	if coarse {
		p.Values = [5]float64{0, .25, float64(rng.IntN(2)), 1, .5}
	}
	for range 6 {
		state := score.Known
		if rng.IntN(12) == 0 {
			state = score.State(rng.IntN(4))
		}
		p.States += strconv.Itoa(int(state))
	}
	if rng.IntN(12) == 0 {
		p.Reason = 1 + rng.IntN(int(score.ModelNotServed))
	}
	return p
}

func TestNameHashIsFNV1a(t *testing.T) {
	h := fnv.New64a()
	fmt.Fprint(h, "sim-0\x00127.0.0.1:8000")
	if got := score.NameHash("sim-0", "127.0.0.1:8000"); got != h.Sum64() {
		t.Errorf("NameHash = %x, want %x", got, h.Sum64())
	}
}
