package peers

import (
	"net/http"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/report"
)

// The headers of an answer.
const (
	replicaHeader  = "X-Eppctl-Replica"
	instanceHeader = "X-Eppctl-Instance"
)

// maxBacklog is how many changed endpoints wait for a reader that is slow; who has
// more is cut off and may ask again.
const maxBacklog = 2 * pool.MaxEndpoints

// reader is a replica that is told. What it has not been told yet waits here, the
// newest of each endpoint.
type reader struct {
	mu      sync.Mutex
	backlog map[[2]string]pool.Booking
	wake    chan struct{}
}

func (r *reader) put(changed []pool.Booking) {
	r.mu.Lock()
	for i := range changed {
		r.backlog[[2]string{changed[i].Pod, changed[i].Endpoint}] = changed[i]
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take empties the backlog; false: it was too long.
func (r *reader) take(dst []pool.Booking) ([]pool.Booking, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.backlog) > maxBacklog {
		return dst, false
	}
	for _, b := range r.backlog {
		dst = append(dst, b)
	}
	clear(r.backlog)
	return dst, true
}

// subscribe makes a reader; nil when there are too many.
func (x *Exchange) subscribe() *reader {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.readers) >= pool.MaxPeers {
		return nil
	}
	r := &reader{backlog: map[[2]string]pool.Booking{}, wake: make(chan struct{}, 1)}
	x.readers[r] = struct{}{}
	return r
}

func (x *Exchange) unsubscribe(r *reader) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.readers, r)
}

// ServeHTTP tells another replica, until that goes or this one ends.
func (x *Exchange) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !report.Authorized(req, x.cfg.Token) {
		http.Error(w, "a bearer token is needed that this picker knows", http.StatusUnauthorized)
		return
	}
	r := x.subscribe()
	if r == nil {
		http.Error(w, "too many replicas", http.StatusServiceUnavailable)
		return
	}
	defer x.unsubscribe(r)
	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set(replicaHeader, x.cfg.Replica)
	h.Set(instanceHeader, x.instance)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // nothing more is read
	alive := time.NewTicker(x.cfg.heartbeat)
	defer alive.Stop()
	bookings, line := x.cfg.Pool.Bookings(nil, true), []byte(nil)
	for ok := true; ok; {
		var err error
		if line, err = encode(line[:0], bookings); err != nil {
			return
		}
		_ = control.SetWriteDeadline(clock.Wall{}.Now().Add(x.cfg.silence))
		if _, err := w.Write(line); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-r.wake:
		case <-alive.C:
		case <-req.Context().Done():
			return
		case <-x.over:
			return
		}
		bookings, ok = r.take(bookings[:0])
	}
}
