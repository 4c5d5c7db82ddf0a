package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A fleet is the model servers of a test. They answer as the requests say, and
// keep what arrived.
type fleet struct {
	pods []*pod

	mu       sync.Mutex
	arrivals map[string][]*arrival // by request ID, in the order in which they came
	released map[string]chan struct{}
}

// A pod is one model server.
type pod struct {
	name, address string
	fleet         *fleet
	server        *http.Server
	waiting       atomic.Int64 // what its metrics page says
	sick          atomic.Bool  // its health probe fails
	scrapes       atomic.Int64
}

// An arrival is one attempt at a request, as a pod saw it. Its fields are set
// once ended is closed.
type arrival struct {
	pod                *pod
	proto, method, uri string
	header, trailer    http.Header
	length             int
	sum                [sha256.Size]byte
	err                error // of reading the body
	gone               bool  // the caller left before the answer was complete
	ended              chan struct{}
}

func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	f := &fleet{arrivals: map[string][]*arrival{}, released: map[string]chan struct{}{}}
	for i := range n {
		f.pods = append(f.pods, newPod(t, f, fmt.Sprintf("pod-%d", i)))
	}
	return f
}

func newPod(t *testing.T, f *fleet, name string) *pod {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return servePod(t, f, name, ln)
}

// servePod is newPod on a listener.
func servePod(t *testing.T, f *fleet, name string, ln net.Listener) *pod {
	p := &pod{name: name, address: ln.Addr().String(), fleet: f}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	p.server = &http.Server{Handler: p, Protocols: &protocols, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = p.server.Serve(ln) // until it is closed
	}()
	t.Cleanup(func() {
		p.server.Close()
		<-served
	})
	return p
}

// ServeHTTP implements [http.Handler]. What has no request ID comes from the
// picker's watcher.
func (p *pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Request-Id")
	if id == "" {
		p.servePage(w, r)
		return
	}
	a := &arrival{
		pod: p, proto: r.Proto, method: r.Method, uri: r.RequestURI, header: r.Header.Clone(), ended: make(chan struct{}),
	}
	attempt, release := p.fleet.arrived(id, a)
	defer close(a.ended)
	sum := sha256.New()
	n, err := io.Copy(sum, r.Body)
	a.length, a.err, a.trailer = int(n), err, r.Trailer.Clone()
	sum.Sum(a.sum[:0])
	if err != nil {
		a.gone = true
		panic(http.ErrAbortHandler)
	}
	var s script
	if text := r.Header.Get(scriptHeader); text != "" {
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
			return
		}
	}
	if attempt <= s.Busy {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	a.gone = errors.Is(s.play(w, r, release), errGone)
}

var errGone = errors.New("the caller has gone")

// play answers as the script says.
func (s *script) play(w http.ResponseWriter, r *http.Request, release <-chan struct{}) error {
	stop := func(at place) error {
		if s.Hold == at {
			select {
			case <-release:
			case <-r.Context().Done():
				return errGone
			}
		}
		if s.Abort == at {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	if err := stop(beforeAnswer); err != nil {
		return err
	}
	w.Header().Set("Content-Type", s.contentType())
	w.WriteHeader(s.status())
	pieces := s.pieces(model)
	for i, piece := range pieces {
		if i == len(pieces)/2 {
			if err := stop(midAnswer); err != nil {
				return err
			}
		}
		if _, err := w.Write(piece); err != nil {
			return errGone
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return errGone
		}
		if !pause(r, s.Pause) {
			return errGone
		}
	}
	if s.Trailer != "" {
		w.Header().Set(http.TrailerPrefix+trailerName, s.Trailer)
	}
	return nil
}

// pause reports whether the caller is still there after it.
func pause(r *http.Request, d time.Duration) bool {
	if d == 0 {
		return r.Context().Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-r.Context().Done():
		return false
	}
}

// servePage answers as an idle vLLM does.
func (p *pod) servePage(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health":
		if p.sick.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	case "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model"}]}`, model)
	case "/metrics":
		p.scrapes.Add(1)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		labels := fmt.Sprintf("{engine=\"0\",model_name=%q}", model)
		fmt.Fprintf(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running%s 0\n", labels)
		fmt.Fprintf(w, "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting%s %d\n", labels, p.waiting.Load())
		fmt.Fprintf(w, "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc%s 0.1\n", labels)
		fmt.Fprint(w, "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1\n")
	default:
		http.NotFound(w, r)
	}
}

// arrived keeps an arrival, counts the attempts at its request, and tells when
// the answer may go on.
func (f *fleet) arrived(id string, a *arrival) (attempt int, release <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.arrivals[id] = append(f.arrivals[id], a)
	return len(f.arrivals[id]), f.gate(id)
}

// gate is closed when the request may be answered. The caller holds mu.
func (f *fleet) gate(id string) chan struct{} {
	if f.released[id] == nil {
		f.released[id] = make(chan struct{})
	}
	return f.released[id]
}

// release lets the answer to a request go on.
func (f *fleet) release(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.gate(id))
}

// seen are the attempts at a request so far.
func (f *fleet) seen(id string) []*arrival {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*arrival(nil), f.arrivals[id]...)
}
