package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/score/cost"
)

// A Profile is what a fleet is made of and what its work costs. Its YAML form is
// described in docs/simulate.md.
type Profile struct {
	Name  string `yaml:"name"`
	Model string `yaml:"model"` // base model; a name and no more

	// What a step of the engine costs on the first GPU, see [vllm.Profile].
	Step          Duration `yaml:"step"`
	UncachedToken Duration `yaml:"uncachedToken"`
	CachedToken   Duration `yaml:"cachedToken"`
	// LoRAPerRank is the time to load an adapter, times its rank.
	LoRAPerRank Duration `yaml:"loraPerRank"`

	Budget       int `yaml:"budget"`    // tokens a step
	Sequences    int `yaml:"sequences"` // that run at once
	MaxLength    int `yaml:"maxLength"` // tokens of prompt and answer
	Blocks       int `yaml:"blocks"`    // of 16 tokens, of the KV cache
	AdapterSlots int `yaml:"adapterSlots"`

	GPUs      []GPU     `yaml:"gpus"`
	Pods      string    `yaml:"pods"` // as "8" or "a100=8,a10g=4"
	Intervals Intervals `yaml:"intervals"`
	// Cache is how pods tell what they hold: "events" or "reports".
	Cache    string    `yaml:"cache"`
	Adapters []Adapter `yaml:"adapters"` // their ranks; of others it is 16
	Faults   []Fault   `yaml:"faults"`
}

// A GPU is a type of pod.
type GPU struct {
	Name  string  `yaml:"name"`
	Price float64 `yaml:"price"` // dollars an hour, of a pod
	// Factors on the costs of the profile; 0 is 1.
	Step    float64 `yaml:"step"`
	Prefill float64 `yaml:"prefill"`
	Blocks  int     `yaml:"blocks"` // 0: the profile's
}

// Intervals are how often the picker is told of pods; 0: never.
type Intervals struct {
	Metrics   Duration `yaml:"metrics"`   // scrapes
	Probe     Duration `yaml:"probe"`     // of health
	GPU       Duration `yaml:"gpu"`       // of the DCGM exporter
	Report    Duration `yaml:"report"`    // status reports
	Events    Duration `yaml:"events"`    // what a KV event takes to arrive
	Stale     Duration `yaml:"stale"`     // metrics and probes count so long
	Allowance Duration `yaml:"allowance"` // see [pool.Limits]
}

// A Fault is something that happens to a pod: it dies and comes back with an empty
// cache, or with Slow its steps take that many times as long.
type Fault struct {
	Pod  string   `yaml:"pod"`
	At   Duration `yaml:"at"`
	For  Duration `yaml:"for"` // 0: until the end
	Slow float64  `yaml:"slow"`
}

// How pods tell what they hold.
const (
	byEvents  = "events"
	byReports = "reports"
)

// ProfileNamed is a built-in profile: llama-8b or llama-70b; "" is the first.
func ProfileNamed(name string) (*Profile, error) {
	costs, err := vllm.ProfileNamed(name)
	if err != nil {
		return nil, err
	}
	model := "meta-llama/Llama-3.1-8B-Instruct"
	if costs.Name == "llama-70b" {
		model = "meta-llama/Llama-3.1-70B-Instruct"
	}
	return &Profile{
		Name: costs.Name, Model: model,
		Step: Duration(costs.Step), UncachedToken: Duration(costs.Uncached), CachedToken: Duration(costs.Cached),
		LoRAPerRank: Duration(vllm.LoadPerRank),
		Budget:      vllm.DefaultBudget, Sequences: vllm.DefaultSequences, MaxLength: vllm.DefaultMaxLength,
		Blocks: vllm.DefaultBlocks, AdapterSlots: vllm.DefaultMaxAdapters,
		GPUs: []GPU{
			{Name: "a100", Price: cost.OnDemandA100},
			// By data sheets, against an A100 of 80 GB: 600 of 2,039 GB/s, 70 of 312
			// TFLOPS in BF16, and of its 24 GB some 4.5 left by an 8B model.
			{Name: "a10g", Price: cost.SpotA10G, Step: 3.4, Prefill: 4.5, Blocks: 2_300},
		},
		Pods: "8",
		Intervals: Intervals{
			Metrics: Duration(200 * time.Millisecond), Probe: Duration(time.Second), GPU: Duration(time.Second),
			Report: Duration(2 * time.Second), Events: Duration(time.Millisecond),
			Stale: Duration(5 * time.Second), Allowance: Duration(pool.Allowance),
		},
		Cache: byEvents,
	}, nil
}

// engine is the configuration of a pod's engine.
func (p *Profile) engine(g *GPU, adapters []vllm.Adapter) vllm.Config {
	blocks := p.Blocks
	if g.Blocks > 0 {
		blocks = g.Blocks
	}
	return vllm.Config{
		Model: p.Model, Blocks: blocks, Sequences: p.Sequences, Budget: p.Budget, MaxLength: p.MaxLength,
		Adapters: adapters, MaxAdapters: p.AdapterSlots, Vocabulary: vocabulary[:], EndID: endID,
		Profile: vllm.Profile{
			Name: p.Name, Step: times(p.Step, g.Step),
			Uncached: times(p.UncachedToken, g.Prefill), Cached: times(p.CachedToken, g.Prefill),
		},
	}
}

// times is a duration by a factor of which 0 is 1.
func times(d Duration, factor float64) time.Duration {
	if factor == 0 {
		return time.Duration(d)
	}
	return time.Duration(float64(d) * factor)
}

// cold is what the prefill of a prompt takes on the first GPU with nothing cached
// and nothing else to do.
func (p *Profile) cold(tokens int) time.Duration {
	g := &p.GPUs[0]
	steps := (tokens + p.Budget - 1) / p.Budget
	return time.Duration(steps)*times(p.Step, g.Step) + time.Duration(tokens)*times(p.UncachedToken, g.Prefill)
}

// adapters are those that requests need, with the times that they take to load.
func (p *Profile) adapters(t *Trace) []vllm.Adapter {
	const usual = 16
	var out []vllm.Adapter
	for _, a := range t.Adapters {
		if i := slices.IndexFunc(p.Adapters, func(b Adapter) bool { return b.Name == a.Name }); i >= 0 {
			a.Rank = p.Adapters[i].Rank
		}
		if a.Rank == 0 {
			a.Rank = usual
		}
		out = append(out, vllm.Adapter{Name: a.Name, Rank: a.Rank, Load: time.Duration(a.Rank) * time.Duration(p.LoRAPerRank)})
	}
	return out
}

// vocabulary is what engines answer with where the trace does not say.
var vocabulary = func() (ids [1024]uint32) {
	for i := range ids {
		ids[i] = uint32(i)
	}
	return ids
}()

const endID = uint32(len(vocabulary))

// A Pod is a place in the fleet.
type Pod struct {
	Name, Address string // host:port
	GPU           GPU
}

// Fleet makes pods of the numbers and types that text names, as "8" or
// "a100=8,a10g=4"; "" is the profile's own.
func (p *Profile) Fleet(text string) ([]Pod, error) {
	if text == "" {
		text = p.Pods
	}
	counts, err := p.parsePods(text)
	if err != nil {
		return nil, err
	}
	var pods []Pod
	for _, c := range counts {
		for range c.n {
			i := len(pods)
			pods = append(pods, Pod{
				Name: fmt.Sprintf("sim-%d", i), Address: fmt.Sprintf("10.0.%d.%d:8000", i>>8, i&255), GPU: *c.gpu,
			})
		}
	}
	return pods, nil
}
