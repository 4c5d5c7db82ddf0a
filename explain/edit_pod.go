package explain

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/eppctl/eppctl/score"
	"github.com/eppctl/eppctl/score/nearest"
)

// builtinInputs are the inputs of a pod that the built-in factors look at.
var builtinInputs = []string{"cache", "load", "queue", "waiting", "pending", "health", "adapter"}

// inputKeys are the inputs of a pod that the record's picker decides by.
func (e editor) inputKeys() []string {
	keys := []string{"reason"}
	if !e.rec.foreign() {
		keys = append(keys, builtinInputs...)
	}
	for _, c := range e.rec.Weights.Custom {
		keys = append(keys, c.Name)
	}
	return keys
}

// input reads a key whose "pods[" is cut off: POD].INPUT.
func (e editor) input(l Edit, rest string) (edit, error) {
	at := strings.LastIndex(rest, "].")
	if at < 0 {
		return edit{}, fmt.Errorf("%s: must be pods[POD].INPUT, for example pods[%s].queue", l.Key, e.anyPod())
	}
	i, err := e.rec.find(rest[:at])
	if err != nil {
		return edit{}, fmt.Errorf("%s: %w", l.Key, err)
	}
	name, keys := rest[at+len("]."):], e.inputKeys()
	if !slices.Contains(keys, name) {
		return edit{}, fmt.Errorf("%s: a pod has no input %q: did you mean %s? The inputs are %s",
			l.Key, name, nearest.Name(name, keys), strings.Join(keys, ", "))
	}
	out := edit{key: l.Key, sets: []string{place(i, name)}}
	read := e.number
	switch name {
	case "reason":
		read = e.reason
	case "cache":
		read = e.cache
	case "queue":
		read, out.sets = e.depth, []string{place(i, "waiting"), place(i, "pending")}
	case "waiting", "pending":
		read = e.requests
	case "adapter":
		read = e.adapter
	}
	return out, read(&out, l, i, name)
}

// place names what an edit writes.
func place(i int, name string) string { return strconv.Itoa(i) + "." + name }

func (e editor) anyPod() string {
	if len(e.rec.Candidates) == 0 {
		return "POD"
	}
	return e.rec.Candidates[0].Pod
}

// given is a raw value that somebody set.
func given(v float64) Input {
	return Input{Value: new(v), State: score.Known.String(), Source: score.SourceManual.String()}
}

// known is the value of an input, if there is one that counts.
func (in *Input) known() (float64, bool) {
	return deref(in.Value), in.Value != nil && usable(in.State)
}

// was keeps what the edit replaces.
func (e *edit) was(v float64, known bool) {
	if known {
		e.from = v
	}
}

// number reads load, health and the answers of custom scorers.
func (e editor) number(out *edit, l Edit, i int, name string) error {
	top := 1.0
	if name == "load" {
		top = math.MaxFloat64
	}
	v, err := readRatio(l, top)
	if err != nil {
		return err
	}
	c := &e.rec.Candidates[i]
	out.to = v
	switch name {
	case "load":
		out.was(c.Load.known())
		out.apply = func(rec *Record) { rec.Candidates[i].Load = given(v) }
	case "health":
		out.was(c.Health.known())
		out.apply = func(rec *Record) { rec.Candidates[i].Health = given(v) }
	default:
		k := slices.IndexFunc(c.Custom, func(c CustomValue) bool { return c.Name == name })
		if k < 0 {
			return fmt.Errorf("%s: the pod has no answer of that factor", l.Key)
		}
		out.was(deref(c.Custom[k].Value), usable(c.Custom[k].State) && c.Custom[k].Value != nil)
		out.apply = func(rec *Record) {
			rec.Candidates[i].Custom[k] = CustomValue{Name: name, Value: new(v), State: score.Known.String()}
		}
	}
	return nil
}

// cache reads blocks, or a share of the prompt's, which is rounded to whole ones.
func (e editor) cache(out *edit, l Edit, i int, _ string) error {
	q := &e.rec.Request
	if q.Blocks == 0 || q.NoPrefix != "" {
		return fmt.Errorf("%s: this request has no prefix to match: %s", l.Key, cmp.Or(q.NoPrefix, "it is shorter than one block"))
	}
	blocks := 0.0
	if strings.HasSuffix(l.Value, "%") {
		share, err := readRatio(l, 1)
		if err != nil {
			return err
		}
		blocks = math.Round(share * float64(q.Blocks))
	} else {
		n, err := readWhole(l, 0)
		if err == nil && n > q.Blocks {
			err = fmt.Errorf("%s: the prompt has %s, got %d", l.Key, count(q.Blocks, "block"), n)
		}
		if err != nil {
			return err
		}
		blocks = float64(n)
	}
	out.was(e.rec.Candidates[i].Cache.known())
	out.to = blocks
	out.apply = func(rec *Record) { rec.Candidates[i].Cache = given(blocks) }
	return nil
}

// depth reads waiting and pending together.
func (e editor) depth(out *edit, l Edit, i int, _ string) error {
	n, err := readWhole(l, 0)
	if err != nil {
		return err
	}
	c := &e.rec.Candidates[i]
	waiting, known := c.Waiting.known()
	out.was(waiting+float64(c.Pending+c.PeerPending), known)
	out.to = n
	out.apply = func(rec *Record) {
		to := &rec.Candidates[i]
		to.Waiting, to.Pending, to.PeerPending = given(float64(n)), 0, 0
	}
	return nil
}

func (e editor) requests(out *edit, l Edit, i int, name string) error {
	n, err := readWhole(l, 0)
	if err != nil {
		return err
	}
	c := &e.rec.Candidates[i]
	out.to = n
	if name == "pending" {
		out.from, out.apply = c.Pending, func(rec *Record) { rec.Candidates[i].Pending = n }
		return nil
	}
	out.was(c.Waiting.known())
	out.apply = func(rec *Record) { rec.Candidates[i].Waiting = given(float64(n)) }
	return nil
}

func (e editor) adapter(out *edit, l Edit, i int, _ string) error {
	loaded, err := strconv.ParseBool(l.Value)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %q is neither true nor false", l.Key, l.Value)
	case e.rec.Request.Adapter == "":
		return fmt.Errorf("%s: this request needs no adapter", l.Key)
	}
	a := e.rec.Candidates[i].Adapters
	if usable(a.State) {
		out.from = a.Match
	}
	out.to = loaded
	out.apply = func(rec *Record) {
		to := &rec.Candidates[i].Adapters
		if was := usable(to.State) && to.Match; loaded != was {
			to.Loaded = max(0, to.Loaded+map[bool]int{true: 1, false: -1}[loaded])
		}
		to.State, to.Match, to.Detail = score.Known.String(), loaded, ""
	}
	return nil
}

// reason lets an excluded pod in, or keeps one out for a reason of the pool's.
func (e editor) reason(out *edit, l Edit, i int, _ string) error {
	reason, ok := score.ParseReason(l.Value)
	var names []string
	for r := score.NotReady; r < score.Unhealthy; r++ {
		names = append(names, r.String())
	}
	was := e.rec.Candidates[i].Reason
	switch {
	case !ok || reason >= score.Unhealthy:
		return fmt.Errorf("%s: must be empty, which lets the pod in, or one of %s; got %q", l.Key, strings.Join(names, ", "), l.Value)
	case reason == score.Eligible && was == score.Unhealthy.String():
		return e.follows(l, i, "its health: set pods[%s].health")
	case reason == score.Eligible && was == score.QueueFull.String():
		return e.follows(l, i, "its queue: set pods[%s].queue, or maxQueue")
	}
	out.from, out.to = was, l.Value
	out.apply = func(rec *Record) { rec.Candidates[i].Reason = l.Value }
	return nil
}

func (e editor) follows(l Edit, i int, from string) error {
	c := &e.rec.Candidates[i]
	return errors.New(l.Key + ": " + c.Reason + " follows from " + fmt.Sprintf(from, c.Pod))
}
