package llmdlog

import (
	"regexp"
	"strconv"
	"strings"
)

// process is a running picker, told apart by the prefix of its lines.
type process struct {
	source   string
	version  string
	level    int  // as its flags say, 0 when not known
	seen     int  // the highest level that a line takes
	started  bool // its start was read
	profiles map[string]profile
	groups   map[string]*group
}

// profile is a scheduling profile as the configuration lines have it.
type profile struct {
	weights  map[string]float64 // by scorer, as name/type or as the plain name
	decimals int                // of the weights in the text
}

func newProcess(source string) *process {
	return &process{source: source, profiles: map[string]profile{}, groups: map[string]*group{}}
}

// verbosity is the process's -v, as far as it is known.
func (proc *process) verbosity() int {
	if proc.level > 0 {
		return proc.level
	}
	return proc.seen
}

// started begins a process anew: what was open has died with the old one.
func (p *Parser) started(proc *process, e *entry) {
	if proc.started || proc.seen > 0 {
		p.stats.Restarts++
	}
	for at := p.queue.Front(); at != nil; {
		r := at.Value.(*request)
		at = at.Next()
		if r.proc == proc {
			p.close(r)
		}
	}
	p.settle(proc)
	*proc = *newProcess(proc.source)
	proc.started = true
	const commit = 12
	proc.version = clip(e.BuildRef)
	if len(e.Commit) >= commit {
		proc.version = strings.TrimSpace(proc.version + " (" + e.Commit[:commit] + ")")
	}
}

func (proc *process) setFlags(flags map[string]any) {
	switch v := flags["v"].(type) {
	case float64:
		proc.level = int(max(0, min(v, 10)))
	case string:
		proc.level, _ = strconv.Atoi(v)
	}
}

const maxProfiles = 64

var (
	// map[decode:{Filters: [a/b], Scorers: [x/y: 3.000000, z/z: 0.500000], Picker: p/q} prefill:{…}]
	parsedProfile = regexp.MustCompile(`(?:map\[| )([^\s:{}\[\]]+):\{Filters: \[[^\]]*\], Scorers: \[([^\]]*)\], Picker: `)
	// [{Name: default, Plugins: [{PluginRef: x, Weight: 2.00} {PluginRef: y}]}]
	rawProfile = regexp.MustCompile(`\{Name: ([^,{}\[\]]+), Plugins: \[((?:\{PluginRef: [^{}]*\} ?)*)\]`)
	rawPlugin  = regexp.MustCompile(`\{PluginRef: ([^,{}]+), Weight: ([-+0-9.eE]+)\}`)
)

// parsedConfig reads the scheduler's configuration: weights with six decimals.
func (proc *process) parsedConfig(config string) {
	clear(proc.profiles)
	for _, m := range parsedProfile.FindAllStringSubmatch(config, maxProfiles) {
		weights := map[string]float64{}
		for scorer := range strings.SplitSeq(m[2], ", ") {
			at := strings.LastIndex(scorer, ": ")
			if at < 0 || len(weights) == maxScorers {
				continue
			}
			if w, err := strconv.ParseFloat(scorer[at+2:], 64); err == nil {
				weights[clip(scorer[:at])] = w
			}
		}
		proc.profiles[clip(m[1])] = profile{weights: weights, decimals: parsedDecimals}
	}
}

// The decimals of weights in the two kinds of configuration lines.
const (
	parsedDecimals = 6
	rawDecimals    = 2
)

// rawConfig reads the configuration file as it is printed, which has the weights
// with two decimals and by the plugins' names. The parsed one counts more.
func (proc *process) rawConfig(config string) {
	for _, m := range rawProfile.FindAllStringSubmatch(config, maxProfiles) {
		if proc.profiles[clip(m[1])].decimals == parsedDecimals {
			continue
		}
		weights := map[string]float64{}
		for _, plugin := range rawPlugin.FindAllStringSubmatch(m[2], maxScorers) {
			if w, err := strconv.ParseFloat(plugin[2], 64); err == nil {
				weights[clip(plugin[1])] = w
			}
		}
		proc.profiles[clip(m[1])] = profile{weights: weights, decimals: rawDecimals}
	}
}

// configured finds the weights that the configuration gives a run's scorers.
func (proc *process) configured(name string, scorers []string) ([]float64, int) {
	config, ok := proc.profiles[name]
	if !ok && name == "" && len(proc.profiles) == 1 {
		for _, config = range proc.profiles {
			ok = true
		}
	}
	if !ok {
		return nil, 0
	}
	out := make([]float64, len(scorers))
	for i, scorer := range scorers {
		w, ok := config.weights[scorer]
		if !ok {
			w, ok = config.weights[plain(scorer)]
		}
		if !ok {
			return nil, 0
		}
		out[i] = w
	}
	return out, config.decimals
}

// plain is a plugin's name without its type.
func plain(plugin string) string {
	if at := strings.LastIndexByte(plugin, '/'); at > 0 {
		return plugin[:at]
	}
	return plugin
}

// typeOf is a plugin's type: what it does, whatever it was named.
func typeOf(plugin string) string { return plugin[strings.LastIndexByte(plugin, '/')+1:] }
