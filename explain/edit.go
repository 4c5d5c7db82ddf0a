package explain

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/score"
	"github.com/eppctl/eppctl/score/nearest"
)

// Edit is one change to a recorded decision, as text. The keys are
//
//	weights.KEY                          cache, load, queue, health, adapter, or a custom factor
//	preset                               weights and maxQueue of that name
//	maxQueue, maxUtilization, saturation
//	without                              the pod to leave out
//	pods[POD].INPUT                      cache (blocks, or a share: 50%), load, queue (waiting and
//	                                     pending together), waiting, pending, health, adapter (true
//	                                     or false), a custom factor, or reason (empty: let it in)
//
// where POD is a pod's name or endpoint.
type Edit struct{ Key, Value string }

// ParseEdit reads "KEY=VALUE".
func ParseEdit(text string) (Edit, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return Edit{}, fmt.Errorf("%q is not KEY=VALUE; an example: weights.queue=.3", text)
	}
	return Edit{key, value}, nil
}

// edit is an [Edit] that was understood.
type edit struct {
	key      string
	from, to any // number, string or bool; nil when not known
	apply    func(*Record)
	weights  bool     // it changes weights, which have to sum to 1 together
	sets     []string // the places that it writes, by which a contradiction is found
}

// editor understands edits of one record.
type editor struct{ rec *Record }

// readEdits understands all edits and refuses what contradicts itself. Presets
// come first, so that single weights change them.
func readEdits(rec *Record, list []Edit) ([]edit, error) {
	e := editor{rec}
	out := make([]edit, 0, len(list))
	set := map[string]string{}
	for _, l := range list {
		one, err := e.read(l)
		if err != nil {
			return nil, err
		}
		for _, place := range one.sets {
			if other, twice := set[place]; twice {
				return nil, fmt.Errorf("%s: %s is set already; give one of them", l.Key, other)
			}
			set[place] = l.Key
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(a, b edit) int {
		return cmp.Compare(boolRank(a.key != "preset"), boolRank(b.key != "preset"))
	})
	return out, nil
}

// plainKeys are the keys that stand for themselves.
var plainKeys = []string{"preset", "maxQueue", "maxUtilization", "saturation", "without"}

func (e editor) read(l Edit) (edit, error) {
	if key, ok := strings.CutPrefix(l.Key, "weights."); ok {
		return e.weight(l, key)
	}
	if rest, ok := strings.CutPrefix(l.Key, "pods["); ok {
		return e.input(l, rest)
	}
	if !slices.Contains(plainKeys, l.Key) {
		keys := slices.Clone(plainKeys)
		for _, key := range e.weightKeys() {
			keys = append(keys, "weights."+key)
		}
		return edit{}, fmt.Errorf("unknown key %q: did you mean %s? The keys are %s, and pods[POD].INPUT",
			l.Key, nearest.Name(l.Key, keys), strings.Join(keys, ", "))
	}
	if l.Key != "without" && e.rec.foreign() {
		return edit{}, fmt.Errorf("%s: the picker of this record has no such setting; change a weight: weights.%s",
			l.Key, e.weightKeys()[0])
	}
	return e.setting(l)
}

// weightKeys are the names of the weights that the record's picker has.
func (e editor) weightKeys() []string {
	keys := score.WeightKeys()
	if e.rec.foreign() {
		keys = nil
	}
	for _, c := range e.rec.Weights.Custom {
		keys = append(keys, c.Name)
	}
	return keys
}

func (e editor) weight(l Edit, key string) (edit, error) {
	if keys := e.weightKeys(); !slices.Contains(keys, key) {
		return edit{}, fmt.Errorf("unknown weight %q: did you mean %s? The weights are %s", key, nearest.Name(key, keys), strings.Join(keys, ", "))
	}
	top := 1.0
	if e.rec.foreign() {
		top = math.MaxFloat64
	}
	v, err := readRatio(l, top)
	if err != nil {
		return edit{}, err
	}
	w, err := e.rec.Weights.engine()
	if err != nil {
		return edit{}, err
	}
	out := edit{key: l.Key, to: v, weights: true, sets: []string{l.Key}}
	out.from = weightOf(w, key)
	out.apply = func(rec *Record) { rec.Weights.set(key, v) }
	return out, nil
}

func weightOf(w *score.Weights, key string) float64 {
	if f := slices.Index(score.WeightKeys(), key); f >= 0 {
		return w.Weight(f)
	}
	at := slices.IndexFunc(w.Custom, func(c score.CustomWeight) bool { return c.Name == key })
	return w.Custom[at].Weight
}

// set changes a weight that is there.
func (w *Weights) set(key string, v float64) {
	for i := range w.Custom {
		if w.Custom[i].Name == key {
			w.Custom[i].Weight = v
			return
		}
	}
	*map[string]*float64{
		"cache": &w.Cache, "load": &w.Load, "queue": &w.Queue, "health": &w.Health, "adapter": &w.Adapter,
	}[key] = v
}

// setting reads the plain keys.
func (e editor) setting(l Edit) (edit, error) {
	out, w := edit{key: l.Key, to: l.Value, sets: []string{l.Key}}, &e.rec.Weights
	switch l.Key {
	case "preset":
		return e.preset(l)
	case "without":
		i, err := e.rec.find(l.Value)
		if err != nil {
			return out, fmt.Errorf("without: %w", err)
		}
		out.sets = []string{place(i, "reason")}
		out.apply = func(rec *Record) { rec.Candidates[i].Reason = score.NotInPool.String() }
	case "maxQueue":
		n, err := readWhole(l, 1)
		if err != nil {
			return out, err
		}
		out.from, out.to, out.apply = w.MaxQueue, n, func(rec *Record) { rec.Weights.MaxQueue = n }
	case "maxUtilization":
		v, err := readRatio(l, math.MaxFloat64)
		if err == nil && v == 0 {
			err = fmt.Errorf("%s: must be above 0", l.Key)
		}
		if err != nil {
			return out, err
		}
		out.from, out.to, out.apply = w.MaxUtilization, v, func(rec *Record) { rec.Weights.MaxUtilization = v }
	case "saturation":
		if _, err := score.ParseSaturation(l.Value); err != nil {
			return out, err
		}
		out.from, out.apply = w.Saturation, func(rec *Record) { rec.Weights.Saturation = l.Value }
	}
	return out, nil
}

// preset replaces the built-in weights and the limit of the queues; the weights
// of custom factors stay.
func (e editor) preset(l Edit) (edit, error) {
	p, err := score.Preset(l.Value)
	if err != nil {
		return edit{}, fmt.Errorf("%w; did you mean %s?", err, nearest.Name(l.Value, score.PresetNames()))
	}
	return edit{key: l.Key, to: l.Value, weights: true, sets: []string{l.Key}, apply: func(rec *Record) {
		w := &rec.Weights
		w.Cache, w.Load, w.Queue, w.Health, w.Adapter, w.MaxQueue = p.Cache, p.Load, p.Queue, p.Health, p.Adapter, p.MaxQueue
	}}, nil
}

// find is the place of the candidate with that name or endpoint.
func (r *Record) find(name string) (int, error) {
	at, names := -1, []string{}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		names = append(names, c.Pod, c.Endpoint)
		switch {
		case c.Endpoint == name && c.Pod != name:
			return i, nil
		case c.Pod == name && at >= 0:
			return 0, fmt.Errorf("several pods have the name %q; give the endpoint: %s or %s", name, r.Candidates[at].Endpoint, c.Endpoint)
		case c.Pod == name:
			at = i
		}
	}
	switch {
	case at >= 0:
		return at, nil
	case len(names) == 0:
		return 0, errors.New("this decision had no pods at all")
	}
	return 0, fmt.Errorf("no pod %q among the %s of this decision: did you mean %s?", name, count(len(r.Candidates), "pod"), nearest.Name(name, names))
}

// checkWeights makes sure that changed weights are ones that a picker could be
// given, and says what is missing from the sum.
func checkWeights(rec *Record, changed []edit) error {
	if rec.foreign() {
		return nil
	}
	w, err := rec.Weights.engine()
	if err != nil {
		return err
	}
	sum := 0.0
	for f := range w.Factors() {
		sum += w.Weight(f)
	}
	if err = w.Validate(); err == nil || math.Abs(sum-1) <= score.SumTolerance {
		return err
	}
	verb, off := "add", 1-sum
	if off < 0 {
		verb, off = "take away", -off
	}
	advice := fmt.Sprintf("%s %s", verb, number9(off))
	if key, v := remedy(w, changed, 1-sum); key != "" {
		advice += fmt.Sprintf(", for example weights.%s=%s", key, number9(v))
	}
	return fmt.Errorf("%w: %s", err, advice)
}

// remedy is the largest weight that nobody asked for and that can make up for
// what the sum lacks.
func remedy(w *score.Weights, changed []edit, lacks float64) (key string, value float64) {
	keys := score.WeightKeys()
	for _, c := range w.Custom {
		keys = append(keys, c.Name)
	}
	best := -1.0
	for _, k := range keys {
		asked := slices.ContainsFunc(changed, func(c edit) bool { return c.key == "weights."+k })
		if now := weightOf(w, k); !asked && now > best && now+lacks >= -score.SumTolerance && now+lacks <= 1 {
			key, value, best = k, max(0, now+lacks), now
		}
	}
	return key, value
}

// number9 has as many decimals as the tolerance of the sum needs.
func number9(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(decimal(v, 9), "0"), ".")
}
