package metricview

import (
	"bytes"
	"maps"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// questions are all that pickers are asked.
var questions = []*question{
	&decisions, &picks, &cacheMatch, &compositeScore, &scoringLatency, &queueDepth, &maxQueue, &health, &candidates, &poolPods,
	&treeNodes, &treeBytes, &stale, &adapterLoads, &utilization, &inFlight,
}

// ttftNames are the engines' histograms of the time to first token, in seconds.
var ttftNames = map[string]string{
	"vllm": "vllm:time_to_first_token_seconds", "sglang": "sglang:time_to_first_token_seconds", "trtllm": "trtllm_time_to_first_token_seconds",
}

// infoNames are those of the families whose labels say what a picker is, and of the
// label with its version.
var infoNames = []struct{ family, label string }{
	{"epp_build_info", "version"}, {"llm_d_epp_info", "build_ref"}, {"inference_extension_info", "build_ref"},
}

const (
	startName = "process_start_time_seconds"
	// maxExcerpt bounds the series of an excerpt: there are many in a history. A
	// picker of 1000 pods and 5 models has 12,000.
	maxExcerpt = 20_000
)

// excerptNames are the families of an excerpt.
var excerptNames = func() map[string]bool {
	names := map[string]bool{startName: true}
	for _, q := range questions {
		for _, s := range q.sources {
			names[s.name] = true
		}
	}
	for _, h := range hitNames {
		for _, name := range append(append([]string{h.ratio}, h.found...), h.asked...) {
			names[name] = true
		}
	}
	for _, info := range infoNames {
		names[info.family] = true
	}
	for name := range maps.Values(ttftNames) {
		names[name] = true
	}
	delete(names, "")
	return names
}()

// Excerpt reads of a page what [Look] and [Replica.Engine] need, and passes over
// the rest unread: an excerpt costs a tenth of a page, in time and memory. Errors
// are those of [Parse].
func Excerpt(body []byte, contentType string) (*Page, error) {
	p, err := parse(body, contentType, true)
	if err != nil {
		return nil, err
	}
	series := 0
	for i := range p.Families {
		series += len(p.Families[i].Series)
	}
	if series > maxExcerpt {
		return nil, &LimitError{"series of pods", maxExcerpt}
	}
	return p, nil
}

// excerptLines keeps the lines of an excerpt's families.
func excerptLines(body []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(body) {
		if bytes.HasPrefix(line, []byte("# EOF")) || excerptNames[familyOf(line)] {
			out.Write(line)
		}
	}
	return out.Bytes()
}

// familyOf is the name of the family that a line of text belongs to, as far as it
// is one of an excerpt's.
func familyOf(line []byte) string {
	name := line
	if rest, ok := bytes.CutPrefix(line, []byte("# TYPE ")); ok {
		name = rest
	}
	if i := bytes.IndexAny(name, "{ \t\r\n"); i >= 0 {
		name = name[:i]
	}
	if len(name) == 0 || name[0] == '#' || excerptNames[string(name)] {
		return string(name)
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := bytes.CutSuffix(name, []byte(suffix)); ok {
			return string(base)
		}
	}
	return string(name) + "_total" // OpenMetrics names counters without it
}

func excerptFamilies(all []*dto.MetricFamily) []*dto.MetricFamily {
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool { return !excerptNames[f.GetName()] })
}

// Maker tells whose page it is.
func (p *Page) Maker() Maker { return p.maker() }

// Version is what a picker calls its version, "" when it does not tell.
func (p *Page) Version() string {
	for _, info := range infoNames {
		if f := p.Family(info.family); f != nil && len(f.Series) > 0 {
			return f.Series[0].Label(info.label)
		}
	}
	return ""
}

// Ports are the ports of a picker's endpoints by their names, as far as its counts
// of picks tell them; that of an endpoint with several is "".
func (p *Page) Ports() map[string]string {
	ports := map[string]string{}
	s, f := picks.find(p)
	if f == nil {
		return ports
	}
	for i := range f.Series {
		name, port := f.Series[i].Label(s.label), f.Series[i].Label("port")
		if before, seen := ports[name]; seen && before != port {
			port = ""
		}
		ports[name] = port
	}
	return ports
}

// EngineWork is what an engine did between two pages of it.
type EngineWork struct {
	// HitRatio is the share of prompt tokens that it found in its cache; nil when
	// there was no prompt, or it does not tell.
	HitRatio *float64
	// TTFT are the times to first token, in seconds; nil when it does not tell.
	TTFT *Histogram
}

// Engine is what an engine did between its pages.
func (r Replica) Engine() EngineWork {
	f := newFacts(&Observation{Replicas: []Replica{r}}, Engine)
	kind := r.After.Engine.Engine
	work := EngineWork{HitRatio: known(hitNames[kind].of(&f.replicas[0], ""))}
	if name := ttftNames[kind]; name != "" {
		work.TTFT = f.histogram(&question{name: name, sources: []source{{name: name}}})
	}
	return work
}

// Started is when the process of a page began; false when it does not tell.
func (p *Page) Started() (seconds float64, known bool) {
	if p.Engine.Started.Known {
		return p.Engine.Started.V, true
	}
	return p.started()
}
