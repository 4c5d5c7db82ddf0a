package llmdlog_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// script writes a log as a picker would that has these profiles.
type script struct {
	lines   []string
	at      time.Time
	plugins map[string]plugins // by profile
	pods    []endpoint
}

// plugins are those of a profile, with types and weights: "cache/prefix-cache-scorer".
type plugins struct {
	filters []filter
	scorers []scorer
	picker  string
}

type filter struct {
	name string
	left []string // pods
}

type scorer struct {
	name   string
	weight float64
}

type endpoint struct {
	name             string
	waiting, running int
	kv               float64
	adapters         []string
	unread           bool // its metrics were never read
}

// fields are alternating keys and values.
type fields []any

func newScript(pods ...endpoint) *script {
	return &script{at: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), plugins: map[string]plugins{}, pods: pods}
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// line adds a line, a millisecond after the one before.
func (s *script) line(level, msg, id string, more fields) {
	s.at = s.at.Add(time.Millisecond)
	var b strings.Builder
	fmt.Fprintf(&b, `{"level":%q,"ts":%d.%03d,"caller":"x/y.go:1","msg":%s`, level, s.at.Unix(), s.at.Nanosecond()/1e6, encode(msg))
	if id != "" {
		fmt.Fprintf(&b, `,"x-request-id":%s`, encode(id))
	}
	for i := 0; i < len(more); i += 2 {
		fmt.Fprintf(&b, `,%s:%s`, encode(more[i]), encode(more[i+1]))
	}
	s.lines = append(s.lines, b.String()+"}")
}

// start adds the lines of a start, weights with so many decimals.
func (s *script) start() {
	s.line("info", "GIE build", "", fields{"commit-sha", "0123456789abcdef", "build-ref", "v0.10.0"})
	s.line("info", "Flags processed", "", fields{"flags", map[string]any{"v": 4}})
	var profiles []string
	for name, p := range s.plugins {
		var scorers, filters []string
		for _, one := range p.scorers {
			scorers = append(scorers, fmt.Sprintf("%s: %f", one.name, one.weight))
		}
		for _, one := range p.filters {
			filters = append(filters, one.name)
		}
		profiles = append(profiles, fmt.Sprintf("%s:{Filters: [%s], Scorers: [%s], Picker: %s}", name, strings.Join(filters, ", "), strings.Join(scorers, ", "), p.picker))
	}
	slices.Sort(profiles)
	s.line("info", "parsed config", "", fields{
		"scheduler-config", "{ProfileHandler: h/disagg-profile-handler, Profiles: map[" + strings.Join(profiles, " ") + "]}",
	})
}

func (s *script) received(id string) { s.line("info", "EPP received request", id, nil) }

func (s *script) state(e endpoint) map[string]any {
	active := map[string]int{}
	for _, a := range e.adapters {
		active[a] = 0
	}
	updated := s.at.Add(-250 * time.Millisecond)
	if e.unread {
		updated = time.Time{}
	}
	return map[string]any{
		"ID": map[string]string{"Namespace": "ns", "Name": e.name}, "Name": e.name, "Address": "10.0.0.1", "Port": "80" + e.name[len(e.name)-2:],
		"ActiveModels": active, "WaitingModels": map[string]int{}, "MaxActiveModels": 4, "RunningRequestsSize": e.running,
		"WaitingQueueSize": e.waiting, "KVCacheUsagePercent": e.kv, "UpdateTime": updated, "Labels": map[string]string{"secret": "label"},
	}
}

func (s *script) states(names []string) []map[string]any {
	out := []map[string]any{}
	for _, e := range s.pods {
		if slices.Contains(names, e.name) {
			out = append(out, s.state(e))
		}
	}
	return out
}

// filter adds the beginning of a run up to its scorers, and says who is left.
func (s *script) filter(id, profile string) []string {
	var left []string
	for _, e := range s.pods {
		left = append(left, e.name)
	}
	s.line("info", "Running scheduler profile", id, fields{"profile", profile, "incomingModelName", "m", "targetModelName", "m"})
	s.line("debug", "Before running filter plugins", id, fields{"endpoints", s.states(left)})
	for _, f := range s.plugins[profile].filters {
		left = slices.DeleteFunc(left, func(name string) bool { return !slices.Contains(f.left, name) })
		s.line("debug", "Completed running filter plugin successfully", id, fields{"plugin", f.name, "endpoints", s.states(left)})
		if len(left) == 0 {
			s.line("info", "Filter eliminated all endpoints", id, fields{"plugin", f.name, "endpointsBefore", len(s.pods)})
			s.line("info", "failed to run scheduler profile", id, fields{"profile", profile, "error", "no endpoints available"})
		}
	}
	return left
}

// score adds the scorers' lines and the totals. Values are by scorer, then by pod.
func (s *script) score(id, profile string, left []string, values [][]float64) []map[string]any {
	s.line("debug", "Before running scorer plugins", id, fields{"endpoints", s.states(left)})
	sums := make([]float64, len(left))
	for k, one := range s.plugins[profile].scorers {
		s.line("info", "Running scorer plugin", id, fields{"plugin", one.name})
		for i, name := range left {
			v := values[k][i]
			s.line("debug", "Calculated score", id, fields{"plugin", one.name, "endpoint", map[string]string{"name": name, "namespace": "ns"}, "score", v})
			sums[i] += float64(one.weight * max(0, min(1, v)))
		}
	}
	s.line("info", "Completed running scorer plugins successfully", id, nil)
	s.line("info", "Running picker plugin", id, fields{"plugin", s.plugins[profile].picker})
	totals := []map[string]any{}
	for i, state := range s.states(left) {
		totals = append(totals, map[string]any{"Endpoint": state, "Score": sums[i]})
	}
	s.line("debug", "Candidate pods for picking", id, fields{"endpoints-weighted-score", totals})
	return totals
}

// pick ends a run with a pick, by places in the totals.
func (s *script) pick(id, profile string, totals []map[string]any, picks ...int) {
	var targets []map[string]any
	for _, i := range picks {
		targets = append(targets, totals[i])
	}
	s.line("debug", "Completed running picker plugin successfully", id, fields{
		"plugin", s.plugins[profile].picker, "result", map[string]any{"TargetEndpoints": targets, "ScoredCandidates": nil},
	})
	s.line("info", "Completed running scheduler profile successfully", id, fields{"profile", profile})
}

// run adds a whole run.
func (s *script) run(id, profile string, values [][]float64, picks ...int) {
	s.pick(id, profile, s.score(id, profile, s.filter(id, profile), values), picks...)
}

func (s *script) handled(id, endpoints string) {
	s.line("info", "Request handled", id, fields{"targetModel", "m", "endpoint", endpoints, "objectiveKey", "", "objectiveKey", ""})
	s.line("info", "EPP sent request body response(s) to proxy", id, nil)
}

// answer adds the answer in so many pieces.
func (s *script) answer(id string, pieces int) {
	for i := range pieces {
		s.line("debug", "HandleResponseBody is triggered", id, fields{"endOfStream", i == pieces-1})
	}
	s.line("info", "EPP sent response body back to proxy", id, nil)
}
