package extproc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/request"
)

// Picker chooses the pod of a request and reserves it; [*picker.Picker] is one.
type Picker interface {
	Pick(ctx context.Context, c *picker.Call) (*picker.Pick, error)
}

// Config is what a server needs. Zero values mean the defaults; times are wall
// time.
type Config struct {
	Picker Picker      // required
	Clock  clock.Clock // required; tells when requests arrived
	Logger *slog.Logger
	Limits request.Limits

	// AllowHeaders names the request headers that custom scorers may see.
	AllowHeaders []string

	// Fallbacks is how many endpoints follow the picked one in the destination, in
	// the order of their scores (default none). ORIGINAL_DST clusters take exactly
	// one endpoint: a list makes them answer 503.
	Fallbacks int
	// ScoresMetadata also sends the scores of the listed endpoints, as dynamic
	// metadata.
	ScoresMetadata bool

	// MaxBody is the longest request body in bytes (default 16 MiB).
	MaxBody int64
	// MaxBodies bounds the bytes of all request bodies that are held at once
	// (default 256 MiB).
	MaxBodies int64
	// MaxStreams bounds the requests that are open at once (default 20,000).
	MaxStreams int
	// MaxHeaders and MaxHeaderBytes bound the headers of one message (defaults 256
	// and 64 KiB).
	MaxHeaders     int
	MaxHeaderBytes int
	// BodyTimeout is how long the whole of a request body may take to come, from
	// the headers on (default 60 s).
	BodyTimeout time.Duration
	// IdleTimeout ends a stream on which nothing has come for so long (default
	// 1 h): a pod may think for minutes before it answers.
	IdleTimeout time.Duration
	// EndTimeout is how long a request whose end the gateway does not tell keeps
	// its reservation (default 5 min).
	EndTimeout time.Duration
	// RetryAfter is what clients are told to wait when all pods are busy
	// (default 1 s; whole seconds).
	RetryAfter time.Duration
}

func (c *Config) withDefaults() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	orDefault(&c.MaxBody, 16<<20)
	orDefault(&c.MaxBodies, 256<<20)
	orDefault(&c.MaxStreams, 20_000)
	orDefault(&c.MaxHeaders, 256)
	orDefault(&c.MaxHeaderBytes, 64<<10)
	orDefault(&c.BodyTimeout, time.Minute)
	orDefault(&c.IdleTimeout, time.Hour)
	orDefault(&c.EndTimeout, 5*time.Minute)
	orDefault(&c.RetryAfter, time.Second)
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
		{"fallbacks", int64(c.Fallbacks)},
		{"maxBody", c.MaxBody},
		{"maxBodies", c.MaxBodies},
		{"maxStreams", int64(c.MaxStreams)},
		{"maxHeaders", int64(c.MaxHeaders)},
		{"maxHeaderBytes", int64(c.MaxHeaderBytes)},
		{"bodyTimeout", int64(c.BodyTimeout)},
		{"idleTimeout", int64(c.IdleTimeout)},
		{"endTimeout", int64(c.EndTimeout)},
		{"retryAfter", int64(c.RetryAfter)},
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("%s: must be ≥ 0, got %d", f.name, f.value))
		}
	}
	return errors.Join(errs...)
}
