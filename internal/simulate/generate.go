package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eppctl/eppctl/score/nearest"
)

// GeneratorPrefix begins the name of a generated trace, as in "gen:chat:rate=5".
const GeneratorPrefix = "gen:"

// A Generator makes up traffic of one kind.
type Generator struct {
	Name, About string
	Settings    []Setting
	fill        func(*generation)
}

// A Setting is what can be set of a generator. Lengths are means, in tokens; times are
// in seconds.
type Setting struct {
	Key   string
	Value float64 // the default
	About string
}

// generation is one run of a generator.
type generation struct {
	c    collector
	want int // requests
	rng  *rand.Rand
	set  map[string]float64
	ids  uint64
	seed uint64
	now  time.Duration
	// counted is how many requests there have to be before it is looked whether they
	// are enough.
	counted int
	err     error // of the first request that there is no room for
}

// common are the settings of all generators.
var common = []Setting{
	{"requests", 2000, "how many; --limit counts before it"},
	{"rate", 5, "arrivals a second, a Poisson process"},
	{"uris", 0, "1: each system prompt has a URI of its own; 0: all have one"},
	{"vary", 0, "share of requests that are spelled otherwise: other white space and parameters, the same tokens"},
	{"nat", 1, "conversations that come from one client address"},
}

// Generators are those that there are.
func Generators() []Generator {
	list := []Generator{chat, rag, agents, multiLoRA, herd}
	for i := range list {
		list[i].Settings = slices.Concat(common, list[i].Settings)
	}
	return list
}

// Generate makes a trace as text says: "gen:NAME" and settings, "gen:chat:rate=5:turns=3".
// The same text and seed give the same trace.
func Generate(text string, seed uint64, limit int) (*Trace, error) {
	name, options, _ := strings.Cut(strings.TrimPrefix(text, GeneratorPrefix), ":")
	list := Generators()
	i := slices.IndexFunc(list, func(g Generator) bool { return g.Name == name })
	if i < 0 {
		var names []string
		for _, g := range list {
			names = append(names, GeneratorPrefix+g.Name)
		}
		return nil, fmt.Errorf("no generator %q; there are %s", name, strings.Join(names, ", "))
	}
	g := &generation{rng: rand.New(rand.NewPCG(seed, 4)), seed: hashOf(seed), set: map[string]float64{}}
	if err := g.read(&list[i], options); err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	if g.want = int(g.set["requests"]); limit > 0 {
		g.want = limit
	}
	if g.want > maxRequests {
		return nil, fmt.Errorf("%s: at most %d requests can be simulated", text, maxRequests)
	}
	list[i].fill(g)
	if g.err != nil {
		return nil, fmt.Errorf("%s: %w", text, g.err)
	}
	all := g.c.trace.Requests
	slices.SortStableFunc(all, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	g.c.trace.Requests, g.c.trace.Name = all[:min(g.want, len(all))], text
	t, err := g.c.finish()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return t, nil
}

// read sets the settings.
func (g *generation) read(of *Generator, options string) error {
	var keys []string
	given := map[string]bool{}
	for _, s := range of.Settings {
		g.set[s.Key] = s.Value
		keys = append(keys, s.Key)
	}
	for option := range strings.SplitSeq(options, ":") {
		if options == "" {
			break
		}
		key, value, _ := strings.Cut(option, "=")
		if _, ok := g.set[key]; !ok {
			return fmt.Errorf("no setting %q: did you mean %s? There are %s", key, nearest.Name(key, keys), strings.Join(keys, ", "))
		}
		if given[key] {
			return fmt.Errorf("%s is given twice", key)
		}
		given[key] = true
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || !(v >= 0 && v <= maxTokens) {
			return fmt.Errorf("%s: want a number from 0 to %d, got %q", key, maxTokens, value)
		}
		if err := checkSetting(key, v); err != nil {
			return err
		}
		g.set[key] = v
	}
	return nil
}

// counts are the settings that tell how many there are of something.
var counts = []string{"requests", "nat", "systems", "turns", "documents", "adapters", "rank", "size", "again"}

func checkSetting(key string, v float64) error {
	switch {
	case key == "rate" && v == 0:
		return errors.New("rate: must be above 0")
	case key == "vary" && v > 1:
		return fmt.Errorf("vary: must be a share from 0 to 1, got %v", v)
	case slices.Contains(counts, key) && (v < 1 || v != math.Trunc(v)):
		return fmt.Errorf("%s: must be a whole number above 0, got %v", key, v)
	}
	return nil
}

// id is a number that stands for tokens, or a conversation, of its own.
func (g *generation) id() uint64 {
	g.ids++
	return hashOf(g.seed + g.ids)
}

// several are n ids.
func (g *generation) several(key string) []uint64 {
	ids := make([]uint64, max(1, int(g.set[key])))
	for i := range ids {
		ids[i] = g.id()
	}
	return ids
}

// tokens is a length about the mean: half of it at least, and exponential beyond.
func (g *generation) tokens(key string) int {
	mean := g.set[key]
	return min(maxTokens, max(1, int(math.Round(mean/2*(1+g.rng.ExpFloat64())))))
}

// wait is a time about a mean in seconds.
func (g *generation) wait(mean float64) time.Duration {
	return time.Duration(min(mean*g.rng.ExpFloat64(), longest.Seconds()) * float64(time.Second))
}

// zipf draws one of n, the i-th with a weight of 1/i^s.
func (g *generation) zipf(n int, s float64) int {
	sum := 0.0
	for i := range n {
		sum += math.Pow(float64(i+1), -s)
	}
	u := g.rng.Float64() * sum
	for i := range n {
		if u -= math.Pow(float64(i+1), -s); u < 0 {
			return i
		}
	}
	return n - 1
}

// add adds a request; false when there is no room for it.
func (g *generation) add(q Request) bool {
	if g.err == nil {
		g.err = g.c.add(q)
	}
	return g.err == nil
}

// enough reports whether no request that is still to be made up is among the first
// that are wanted.
func (g *generation) enough() bool {
	switch {
	case g.err != nil:
		return true
	case len(g.c.trace.Requests) < max(g.want, g.counted):
		return false
	}
	n := 0
	for i := range g.c.trace.Requests {
		if g.c.trace.Requests[i].At <= g.now {
			n++
		}
	}
	g.counted = len(g.c.trace.Requests) + (g.want-n)/2 // not to count each time
	return n >= g.want
}
