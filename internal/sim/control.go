package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/internal/request"
)

// maxCommand is the largest body of a call.
const maxCommand = 4096

// maxMs is the longest delay, in milliseconds.
const maxMs = 600_000

// A command is the body of a call; each action reads its own fields, and all
// have defaults, so an empty body will do.
type command struct {
	Channels         // hold, release; none given: all
	Mode     string  `json:"mode"`   // fail: "500" (default), "close" or "hang"; page: "missing" (default) or "frozen"
	Factor   float64 `json:"factor"` // slow: on step times
	Blocks   int     `json:"blocks"` // evict: how many; none given: all that are idle; press: a second
	Value    float64 `json:"value"`  // health
	Ms       float64 `json:"ms"`     // slow-tokenise: milliseconds of wall time; delay-events: of the fleet's
	Share    float64 `json:"share"`  // lose-events: of the batches
	GPU              // gpu; none given: a healthy one's
}

// Handler serves the calls that make pods misbehave. It belongs on a loopback
// address: whoever reaches it may stop the fleet.
//
//	GET  /v1/sim/pods                       {"pods": [PodInfo…]}
//	POST /v1/sim/pods/{pod}/hold            {"answers": true, "reports": true, "events": true, "metrics": true}
//	POST /v1/sim/pods/{pod}/release         the same
//	POST /v1/sim/pods/{pod}/fail            {"mode": "500"}, "close" or "hang"
//	POST /v1/sim/pods/{pod}/drop            reports get lost
//	POST /v1/sim/pods/{pod}/lose-events     {"share": 0.01} of the batches; replays have them
//	POST /v1/sim/pods/{pod}/delay-events    {"ms": 50} of the fleet's time, after their step
//	POST /v1/sim/pods/{pod}/slow            {"factor": 3}
//	POST /v1/sim/pods/{pod}/slow-tokenise   {"ms": 300} of wall time
//	POST /v1/sim/pods/{pod}/health          {"value": 0.2}
//	POST /v1/sim/pods/{pod}/page            {"mode": "missing"} or "frozen", of metrics
//	POST /v1/sim/pods/{pod}/gpu             {"temperature": 95, "doubleBitErrors": 1, "xid": 48, "throttled": 64}
//	POST /v1/sim/pods/{pod}/press           {"blocks": 100} evicted a second
//	POST /v1/sim/pods/{pod}/thrash          adapters leave as soon as nobody needs them
//	POST /v1/sim/pods/{pod}/recover         ends all from fail to thrash
//	POST /v1/sim/pods/{pod}/kill            closes the port, cuts running requests
//	POST /v1/sim/pods/{pod}/restart         empty cache, new epoch, same address
//	POST /v1/sim/pods/{pod}/evict           {"blocks": 100}
//	POST /v1/sim/pods/{pod}/reset           empty cache, not while requests run
//
// {pod} is a name, or * for all. Bodies may be empty. A POST answers as the GET
// does, with the state after it.
func (f *Fleet) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/sim/pods", func(w http.ResponseWriter, _ *http.Request) { f.writePods(w) })
	mux.HandleFunc("POST /v1/sim/pods/{pod}/{action}", f.control)
	return mux
}

func (f *Fleet) writePods(w http.ResponseWriter) {
	writeJSON(w, http.StatusOK, map[string][]PodInfo{"pods": f.Pods()})
}

func (f *Fleet) control(w http.ResponseWriter, r *http.Request) {
	var c command
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCommand))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		request.WriteError(w, &request.Error{Status: http.StatusBadRequest, Param: "body", Message: "not a command: " + err.Error()})
		return
	}
	act, ok := actions[r.PathValue("action")]
	if !ok {
		request.WriteError(w, &request.Error{
			Status: http.StatusNotFound, Param: "action",
			Message: "there are " + strings.Join(slices.Sorted(maps.Keys(actions)), ", "),
		})
		return
	}
	err := act(f, r.PathValue("pod"), &c)
	switch {
	case err == nil:
		f.writePods(w)
	default:
		status, param := http.StatusBadRequest, "body"
		if _, ok := errors.AsType[*UnknownPodError](err); ok {
			status, param = http.StatusNotFound, "pod"
		}
		request.WriteError(w, &request.Error{Status: status, Param: param, Message: err.Error()})
	}
}

// actions are what can be done to a pod.
var actions = map[string]func(f *Fleet, pod string, c *command) error{
	"hold":          func(f *Fleet, pod string, c *command) error { return f.Hold(pod, c.channels()) },
	"release":       func(f *Fleet, pod string, c *command) error { return f.Release(pod, c.channels()) },
	"fail":          func(f *Fleet, pod string, c *command) error { return f.Fail(pod, cmp.Or(c.Mode, FailStatus)) },
	"drop":          func(f *Fleet, pod string, _ *command) error { return f.Drop(pod) },
	"lose-events":   func(f *Fleet, pod string, c *command) error { return f.Lose(pod, c.Share) },
	"delay-events":  delayEvents,
	"slow":          func(f *Fleet, pod string, c *command) error { return f.Slow(pod, c.Factor) },
	"slow-tokenise": slowTokenise,
	"health":        func(f *Fleet, pod string, c *command) error { return f.SetHealth(pod, c.Value) },
	"page":          func(f *Fleet, pod string, c *command) error { return f.BreakPage(pod, cmp.Or(c.Mode, PageMissing)) },
	"gpu":           func(f *Fleet, pod string, c *command) error { return f.SetGPU(pod, c.GPU) },
	"press":         func(f *Fleet, pod string, c *command) error { return f.Press(pod, c.Blocks) },
	"thrash":        func(f *Fleet, pod string, _ *command) error { return f.Thrash(pod) },
	"recover":       func(f *Fleet, pod string, _ *command) error { return f.Recover(pod) },
	"kill":          func(f *Fleet, pod string, _ *command) error { return f.Kill(pod) },
	"restart":       func(f *Fleet, pod string, _ *command) error { return f.Restart(pod) },
	"evict":         evict,
	"reset":         func(f *Fleet, pod string, _ *command) error { return f.Reset(pod) },
}

func delayEvents(f *Fleet, pod string, c *command) error {
	by, err := c.duration()
	if err != nil {
		return err
	}
	return f.Delay(pod, by)
}

func slowTokenise(f *Fleet, pod string, c *command) error {
	by, err := c.duration()
	if err != nil {
		return err
	}
	return f.SlowTokenise(pod, by)
}

func evict(f *Fleet, pod string, c *command) error {
	_, err := f.Evict(pod, cmp.Or(c.Blocks, -1))
	return err
}

// duration is Ms, if it can be one.
func (c *command) duration() (time.Duration, error) {
	if math.IsNaN(c.Ms) || c.Ms < 0 || c.Ms > maxMs {
		return 0, fmt.Errorf("ms: %v is not within 0 and %d", c.Ms, maxMs)
	}
	return time.Duration(c.Ms * float64(time.Millisecond)), nil
}

func (c *command) channels() Channels {
	if c.Channels == (Channels{}) {
		return Everything()
	}
	return c.Channels
}
