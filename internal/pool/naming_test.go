package pool

import (
	"slices"
	"testing"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/score"
)

// inPools are the members a, b and c in these pools.
func inPools(of map[string]string) []Member {
	list := members("a", "b", "c")
	for i := range list {
		list[i].Pool = of[list[i].Name]
	}
	return list
}

func TestQueryOfPools(t *testing.T) {
	p, _ := newPool(t)
	if err := p.Set(inPools(map[string]string{"a": "ns/p", "b": "ns/q"})); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pools []string
		want  []string // that can be picked
	}{
		"all":        {nil, []string{"a", "b", "c"}},
		"one":        {[]string{"ns/q"}, []string{"b"}},
		"two":        {[]string{"ns/p", "ns/q"}, []string{"a", "b"}},
		"none":       {[]string{}, nil},
		"not theirs": {[]string{"ns/r"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			states, _ := p.States(nil, &Query{Pools: c.pools})
			var got []string
			for _, s := range states {
				switch s.Excluded {
				case score.Eligible:
					got = append(got, s.Pod)
				case score.NotInPool:
				default:
					t.Errorf("%s is %v", s.Pod, s.Excluded)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v can be picked, want %v", got, c.want)
			}
		})
	}
}

// A target in no catalogue is an adapter where there is one base model that it can
// be of.
func TestResolveTarget(t *testing.T) {
	adapter := func(base string) Resolution {
		return Resolution{Base: base, Adapter: "new", Served: "new", Unchecked: true}
	}
	base := Resolution{Base: "new", Served: "new", Unchecked: true}
	for name, c := range map[string]struct {
		configured []ModelEntry
		listed     map[string][]engine.Model // by pod
		pools      []string
		ask        string
		want       Resolution
	}{
		"nobody has said anything": {ask: "new", want: base},
		"one model in all pools":   {listed: map[string][]engine.Model{"a": {{ID: "llama"}}, "b": {{ID: "llama"}}}, ask: "new", want: adapter("llama")},
		"two models":               {listed: map[string][]engine.Model{"a": {{ID: "llama"}}, "b": {{ID: "qwen"}}}, ask: "new", want: base},
		"two models on one pod":    {listed: map[string][]engine.Model{"a": {{ID: "llama"}, {ID: "qwen"}}}, ask: "new", want: base},
		"one model in the pool":    {listed: map[string][]engine.Model{"a": {{ID: "llama"}}, "b": {{ID: "qwen"}}}, pools: []string{"ns/q"}, ask: "new", want: adapter("qwen")},
		"a pool that has not said": {listed: map[string][]engine.Model{"a": {{ID: "llama"}}}, pools: []string{"ns/q"}, ask: "new", want: base},
		"its other adapters do not count": {
			listed: map[string][]engine.Model{"a": {{ID: "llama"}, {ID: "fr", Parent: "llama"}}}, ask: "new", want: adapter("llama"),
		},
		"a listed adapter": {
			listed: map[string][]engine.Model{"a": {{ID: "llama"}, {ID: "fr", Parent: "llama"}}}, ask: "fr",
			want: Resolution{Base: "llama", Adapter: "fr", Served: "fr", Found: true},
		},
		"one configured model":  {configured: []ModelEntry{{Name: "llama"}}, ask: "new", want: adapter("llama")},
		"two configured models": {configured: []ModelEntry{{Name: "llama"}, {Name: "qwen"}}, ask: "new", want: base},
		"two configured models, of which the pool has one": {
			configured: []ModelEntry{{Name: "llama", Aliases: []string{"meta/llama"}}, {Name: "qwen"}},
			listed:     map[string][]engine.Model{"a": {{ID: "meta/llama"}}, "b": {{ID: "qwen"}}}, pools: []string{"ns/p"}, ask: "new", want: adapter("llama"),
		},
		"an alias": {
			configured: []ModelEntry{{Name: "llama", Aliases: []string{"chat"}}}, ask: "chat", want: Resolution{Base: "llama", Served: "llama", Found: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(Config{Clock: clock.Wall{}, Tree: prefix.New(), BlockSize: blockSize, Models: c.configured})
			if err := p.Set(inPools(map[string]string{"a": "ns/p", "b": "ns/q"})); err != nil {
				t.Fatal(err)
			}
			for pod, models := range c.listed {
				p.Listed(p.target(pod), models, nil)
			}
			if got := p.ResolveTarget(c.ask, c.pools); got != c.want {
				t.Errorf("%s is %+v, want %+v", c.ask, got, c.want)
			}
		})
	}
}
