package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/eppctl/eppctl/internal/request"
)

// maxCommand is the largest body of a call.
const maxCommand = 4096

// maxSlowTokenise is the longest delay, in milliseconds.
const maxSlowTokenise = 600_000

// A command is the body of a call; each action reads its own fields, and all
// have defaults, so an empty body will do.
type command struct {
	Channels         // hold, release; none given: all
	Mode     string  `json:"mode"`   // fail: "500" (default) or "close"
	Factor   float64 `json:"factor"` // slow: on step times
	Blocks   int     `json:"blocks"` // evict: how many; none given: all that are idle
	Value    float64 `json:"value"`  // health
	Ms       float64 `json:"ms"`     // slow-tokenise: milliseconds of wall time
}

// Handler serves the calls that make pods misbehave. It belongs on a loopback
// address: whoever reaches it may stop the fleet.
//
//	GET  /v1/sim/pods                       {"pods": [PodInfo…]}
//	POST /v1/sim/pods/{pod}/hold            {"answers": true, "reports": true, "metrics": true}
//	POST /v1/sim/pods/{pod}/release         the same
//	POST /v1/sim/pods/{pod}/fail            {"mode": "500"} or {"mode": "close"}
//	POST /v1/sim/pods/{pod}/drop            reports get lost
//	POST /v1/sim/pods/{pod}/slow            {"factor": 3}
//	POST /v1/sim/pods/{pod}/slow-tokenise   {"ms": 300} of wall time
//	POST /v1/sim/pods/{pod}/health          {"value": 0.2}
//	POST /v1/sim/pods/{pod}/recover         ends fail, drop, slow, slow-tokenise and health
//	POST /v1/sim/pods/{pod}/kill            closes the port, cuts running requests
//	POST /v1/sim/pods/{pod}/restart         empty cache, new epoch, same address
//	POST /v1/sim/pods/{pod}/evict           {"blocks": 100}
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
	err := f.act(r.PathValue("action"), r.PathValue("pod"), c)
	switch {
	case err == nil:
		f.writePods(w)
	case errors.Is(err, errNoAction):
		request.WriteError(w, &request.Error{Status: http.StatusNotFound, Param: "action", Message: err.Error()})
	default:
		status, param := http.StatusBadRequest, "body"
		if _, ok := errors.AsType[*UnknownPodError](err); ok {
			status, param = http.StatusNotFound, "pod"
		}
		request.WriteError(w, &request.Error{Status: status, Param: param, Message: err.Error()})
	}
}

var errNoAction = errors.New("there are hold, release, fail, drop, slow, slow-tokenise, health, recover, kill, restart and evict")

func (f *Fleet) act(action, pod string, c command) error {
	actions := map[string]func() error{
		"hold":    func() error { return f.Hold(pod, c.channels()) },
		"release": func() error { return f.Release(pod, c.channels()) },
		"fail":    func() error { return f.Fail(pod, c.mode()) },
		"drop":    func() error { return f.Drop(pod) },
		"slow":    func() error { return f.Slow(pod, c.Factor) },
		"slow-tokenise": func() error {
			if math.IsNaN(c.Ms) || c.Ms < 0 || c.Ms > maxSlowTokenise {
				return fmt.Errorf("slow-tokenise: %v ms is not within 0 and %d", c.Ms, maxSlowTokenise)
			}
			return f.SlowTokenise(pod, time.Duration(c.Ms*float64(time.Millisecond)))
		},
		"health":  func() error { return f.SetHealth(pod, c.Value) },
		"recover": func() error { return f.Recover(pod) },
		"kill":    func() error { return f.Kill(pod) },
		"restart": func() error { return f.Restart(pod) },
		"evict": func() error {
			_, err := f.Evict(pod, c.blocks())
			return err
		},
	}
	do, ok := actions[action]
	if !ok {
		return errNoAction
	}
	return do()
}

func (c command) channels() Channels {
	if c.Channels == (Channels{}) {
		return Everything()
	}
	return c.Channels
}

func (c command) mode() string {
	if c.Mode == "" {
		return FailStatus
	}
	return c.Mode
}

func (c command) blocks() int {
	if c.Blocks == 0 {
		return -1
	}
	return c.Blocks
}
