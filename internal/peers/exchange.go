package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/pool"
)

const (
	// Interval is how long changes are gathered before they are told. The first after a
	// while is told at once.
	Interval = 2 * time.Millisecond
	// heartbeat is how often a replica says that it lives, and silence how long it may
	// say nothing until what it told is forgotten.
	heartbeat = time.Second
	silence   = 3 * time.Second
	// lookupEvery is how often names are looked up.
	lookupEvery = 5 * time.Second
)

// Config says whom to talk to.
type Config struct {
	Pool *pool.Pool
	// Replica is this one's name.
	Replica string
	// Addresses are those of the replicas' listeners for reports, HOST:PORT, of which
	// HOST may be a name with many addresses. This one's may be among them.
	Addresses []string
	// Token is the bearer token that all replicas know.
	Token string
	// TLS says how the others are known; nil = no TLS is spoken with them.
	TLS    *tls.Config
	Logger *slog.Logger

	// Of tests; 0 and nil = the usual.
	interval, heartbeat, silence, lookupEvery time.Duration
	dial                                      func(ctx context.Context, network, address string) (net.Conn, error)
}

// Exchange is this replica's part. It is also the handler of GET /v1/peers.
type Exchange struct {
	cfg      Config
	instance string
	booked   <-chan struct{}
	client   *http.Client
	over     chan struct{} // closed when Run ends

	mu      sync.Mutex
	readers map[*reader]struct{}
	heard   map[string]string // instance → address that it is heard at
	wanted  int

	connected                    atomic.Int64
	messages, unknown, malformed atomic.Uint64
}

// New checks the configuration. Nothing is asked yet.
func New(cfg Config) (*Exchange, error) {
	if cfg.Token == "" {
		return nil, errors.New("other replicas are told of requests only with a token that all of them know")
	}
	for _, a := range cfg.Addresses {
		host, port, err := net.SplitHostPort(a)
		n, bad := strconv.ParseUint(port, 10, 16)
		if err != nil || bad != nil || n == 0 || host == "" || strings.ContainsAny(host, " /@?#") {
			return nil, fmt.Errorf("%q: must be HOST:PORT", a)
		}
	}
	for _, d := range []struct {
		of    *time.Duration
		usual time.Duration
	}{{&cfg.interval, Interval}, {&cfg.heartbeat, heartbeat}, {&cfg.silence, silence}, {&cfg.lookupEvery, lookupEvery}} {
		if *d.of == 0 {
			*d.of = d.usual
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.dial == nil {
		cfg.dial = (&net.Dialer{Timeout: cfg.silence}).DialContext
	}
	x := &Exchange{
		cfg: cfg, instance: uuid.NewString(), booked: cfg.Pool.Exchange(), over: make(chan struct{}),
		readers: map[*reader]struct{}{}, heard: map[string]string{},
	}
	x.client = &http.Client{
		Transport: &http.Transport{ // no proxy: replicas are neighbours
			DialContext: cfg.dial, ResponseHeaderTimeout: cfg.silence,
			TLSClientConfig: cfg.TLS, TLSHandshakeTimeout: cfg.silence,
			DisableKeepAlives: true, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return x, nil
}

// Run tells and listens until ctx ends. It may be called once.
func (x *Exchange) Run(ctx context.Context) error {
	defer close(x.over)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return x.gather(ctx) })
	g.Go(func() error { return x.meet(ctx) })
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// gather hands what has changed to all readers.
func (x *Exchange) gather(ctx context.Context) error {
	var changed []pool.Booking
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-x.booked:
		}
		changed = x.cfg.Pool.Bookings(changed[:0], false)
		x.mu.Lock()
		for r := range x.readers {
			r.put(changed)
		}
		x.mu.Unlock()
		if err := (clock.Wall{}).Sleep(ctx, x.cfg.interval); err != nil {
			return err
		}
	}
}

// Stats count what happens.
type Stats struct {
	Wanted    int    // other replicas that there should be
	Connected int    // of these, those that tell
	Readers   int    // replicas that are told
	Messages  uint64 // that came
	Unknown   uint64 // bookings of endpoints that the pool does not have
	Malformed uint64 // messages that were not taken
}

// Stats returns the counts.
func (x *Exchange) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	return Stats{
		Wanted: x.wanted, Connected: int(x.connected.Load()), Readers: len(x.readers),
		Messages: x.messages.Load(), Unknown: x.unknown.Load(), Malformed: x.malformed.Load(),
	}
}
