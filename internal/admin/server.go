package admin

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/buildinfo"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/fleet"
	"github.com/eppctl/eppctl/internal/naming"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// Decisions finds what was decided; a [record.Store] does.
type Decisions interface {
	Walk(ctx context.Context, q record.Query, visit func(*explain.Record) bool) error
	Coverage() (record.Coverage, error)
}

// Picker tells and changes the weights in force and counts open picks; a
// picker.Picker does. SetWeights fails with picker.ErrGeneration.
type Picker interface {
	Weights() *score.Weights
	SetWeights(w score.Weights, generation uint64) (uint64, error)
	Open() int
}

// Deps are what the API shows.
type Deps struct {
	Decisions Decisions
	Picker    Picker
	Pods      func() []pool.View // departed ones with requests included
	// Drain keeps new requests from a pod, or undoes it; false: there is no such pod.
	Drain   func(pod string, drained bool) bool
	Tree    func() prefix.Stats
	Fleet   *fleet.Watch
	Names   func() *naming.Table // nil = no rules for names of models
	Config  func() any           // in force, as it goes into JSON: without any secret
	Level   *slog.LevelVar
	Version buildinfo.Info
	Clock   clock.Clock  // the picker's, that "since=10m" counts back on
	Sim     http.Handler // mounted at /v1/sim/; nil without a simulated fleet
	Logger  *slog.Logger

	// Access says who may ask; nil = everybody, as on loopback.
	Access Access
	// AllowWrite lets PUT requests change weights and log level, and drain pods.
	AllowWrite bool
	// Hosts are names, beside those of loopback, that a request's Host may have
	// when the server listens on loopback.
	Hosts []string
}

// maxBody bounds what a client may send.
const maxBody = 64 << 10

// server is the API over its dependencies.
type server struct{ Deps }

// handler answers a request, or fails with an *[apiError].
type handler func(w http.ResponseWriter, r *http.Request) error

// NewServer makes the API's handler. Deps must be complete but for Sim and Hosts.
func NewServer(deps Deps) http.Handler {
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Clock == nil {
		deps.Clock = clock.Wall{}
	}
	s := &server{deps}
	mux := http.NewServeMux()
	for path, methods := range s.routes() {
		mux.Handle(path, s.route(methods))
	}
	if s.Sim != nil {
		mux.Handle("/v1/sim/", http.MaxBytesHandler(s.Sim, maxBody))
	}
	mux.Handle("/", s.route(nil))
	return s.guard(mux)
}

func (s *server) routes() map[string]map[string]handler {
	get := func(h handler) map[string]handler { return map[string]handler{http.MethodGet: h} }
	return map[string]map[string]handler{
		"/healthz":             get(s.healthz),
		"/v1/version":          get(s.version),
		"/v1/snapshot":         get(s.snapshot),
		"/v1/stream":           get(s.stream),
		"/v1/decisions":        get(s.decisions),
		"/v1/decisions/{id}":   get(s.decision),
		"/v1/pods":             get(s.pods),
		"/v1/pods/{pod}/drain": {http.MethodPut: s.putDrain},
		"/v1/tree":             get(s.tree),
		"/v1/ledger":           get(s.ledger),
		"/v1/names":            get(s.names),
		"/v1/config":           get(s.config),
		"/v1/config/weights":   {http.MethodGet: s.weights, http.MethodPut: s.putWeights},
		"/v1/log-level":        {http.MethodGet: s.level, http.MethodPut: s.putLevel},
	}
}

// route calls the handler of the request's method; nil methods are those of a
// path that does not exist.
func (s *server) route(methods map[string]handler) http.Handler {
	var allowed []string
	for method := range methods {
		allowed = append(allowed, method)
		if method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	slices.Sort(allowed)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		h, ok := methods[method]
		var err error
		switch {
		case ok:
			err = h(w, r)
		case methods == nil:
			err = noSuchPath(r)
		default:
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			err = fail(http.StatusMethodNotAllowed, CodeMethod, r.Method+" is not possible here").hint("allowed: " + strings.Join(allowed, ", "))
		}
		if err != nil {
			s.answerError(w, r, err)
		}
	})
}

func noSuchPath(r *http.Request) error {
	e := fail(http.StatusNotFound, CodeNoSuchPath, "there is nothing at "+quoted(r.URL.Path))
	if strings.HasPrefix(r.URL.Path, "/v1/sim/") {
		return e.hint("faults can be made only in a simulated fleet: eppctl serve --sim 4")
	}
	return e.hint("what there is: /v1/snapshot, /v1/stream, /v1/decisions, /v1/pods, /v1/tree, /v1/ledger, /v1/names, /v1/config, /v1/config/weights, /v1/log-level, /v1/version")
}

func (s *server) healthz(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := w.Write([]byte("ok\n"))
	return err
}

func (s *server) version(w http.ResponseWriter, r *http.Request) error {
	return answer(w, r, Version{document("Version"), s.Version})
}

func (s *server) config(w http.ResponseWriter, r *http.Request) error {
	return answer(w, r, Config{document("Config"), s.Config()})
}
