package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/request"
)

// Picker chooses the pod of a request and reserves it; [*picker.Picker] is one.
type Picker interface {
	Pick(ctx context.Context, c *picker.Call) (*picker.Pick, error)
}

// Config is what a gateway needs. Zero values mean the defaults; times are wall
// time.
type Config struct {
	Picker Picker      // required
	Clock  clock.Clock // required; tells when requests arrived
	Logger *slog.Logger
	Limits request.Limits

	// AllowHeaders names the request headers that custom scorers may see.
	AllowHeaders []string

	// MaxBody is the longest request body in bytes (default 16 MiB).
	MaxBody int64
	// MaxBodies bounds the bytes of all bodies that are held at once, from the
	// first byte read to the last byte sent (default 512 MiB).
	MaxBodies int64
	// BodyTimeout is how long a client may take to send its body (default 60 s).
	BodyTimeout time.Duration
	// StallTimeout is how long a client may leave a piece of its answer unread
	// before it counts as gone (default 5 min).
	StallTimeout time.Duration
	// RetryAfter is what clients are told to wait when all pods are busy
	// (default 1 s; whole seconds).
	RetryAfter time.Duration

	// ReadHeaderTimeout, IdleTimeout and MaxHeaderBytes are those of the
	// [http.Server] (defaults 10 s, 2 min, 64 KiB).
	ReadHeaderTimeout time.Duration
	IdleTimeout       time.Duration
	MaxHeaderBytes    int

	// ConnectTimeout bounds a dial to a pod (default 3 s).
	ConnectTimeout time.Duration
	// AnswerTimeout bounds the wait for a pod's response headers, which without
	// streaming come only with the whole answer (default none).
	AnswerTimeout time.Duration
	// PodIdleTimeout is how long an unused connection to a pod is kept. It must
	// be less than the pods keep theirs, lest requests are written to connections
	// that are being closed (default 4 s: vLLM's VLLM_HTTP_TIMEOUT_KEEP_ALIVE,
	// and uvicorn by itself, say 5 s).
	PodIdleTimeout time.Duration
	// PodIdleConns is how many unused connections to a pod are kept (default 256).
	PodIdleConns int
}

func (c *Config) withDefaults() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	orDefault(&c.MaxBody, 16<<20)
	orDefault(&c.MaxBodies, 512<<20)
	orDefault(&c.BodyTimeout, time.Minute)
	orDefault(&c.StallTimeout, 5*time.Minute)
	orDefault(&c.RetryAfter, time.Second)
	orDefault(&c.ReadHeaderTimeout, 10*time.Second)
	orDefault(&c.IdleTimeout, 2*time.Minute)
	orDefault(&c.MaxHeaderBytes, 64<<10)
	orDefault(&c.ConnectTimeout, 3*time.Second)
	orDefault(&c.PodIdleTimeout, 4*time.Second)
	orDefault(&c.PodIdleConns, 256)
}

func orDefault[T ~int | ~int64](v *T, fallback T) {
	if *v == 0 {
		*v = fallback
	}
}

// Validate reports everything that is wrong, each with its field.
func (c *Config) Validate() error {
	var errs []error
	if c.Picker == nil {
		errs = append(errs, errors.New("picker: there is none"))
	}
	if c.Clock == nil {
		errs = append(errs, errors.New("clock: there is none"))
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"maxBody", c.MaxBody},
		{"maxBodies", c.MaxBodies},
		{"bodyTimeout", int64(c.BodyTimeout)},
		{"stallTimeout", int64(c.StallTimeout)},
		{"retryAfter", int64(c.RetryAfter)},
		{"readHeaderTimeout", int64(c.ReadHeaderTimeout)},
		{"idleTimeout", int64(c.IdleTimeout)},
		{"maxHeaderBytes", int64(c.MaxHeaderBytes)},
		{"connectTimeout", int64(c.ConnectTimeout)},
		{"answerTimeout", int64(c.AnswerTimeout)},
		{"podIdleTimeout", int64(c.PodIdleTimeout)},
		{"podIdleConns", int64(c.PodIdleConns)},
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("%s: must be ≥ 0, got %d", f.name, f.value))
		}
	}
	return errors.Join(errs...)
}

// Server is an HTTP server of g with the configured limits; its address is the
// caller's affair. It has no write timeout, which would end long answers:
// StallTimeout takes its place.
func (g *Gateway) Server() *http.Server {
	return &http.Server{
		Handler:           g,
		ReadHeaderTimeout: g.cfg.ReadHeaderTimeout,
		IdleTimeout:       g.cfg.IdleTimeout,
		MaxHeaderBytes:    g.cfg.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(g.cfg.Logger.Handler(), slog.LevelWarn),
	}
}
