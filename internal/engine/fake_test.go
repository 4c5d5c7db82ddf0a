package engine

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
)

const twoWaiting = "vllm:num_requests_waiting 2\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.5\n"

// answer is what a fake server says to one path.
type answer struct {
	after  time.Duration
	err    error
	status int
	body   string
	// stream, in place of body, is read while the answer is.
	stream io.Reader
}

// fleet is a [http.RoundTripper] with a server for each host in it.
type fleet struct {
	mu      sync.Mutex
	answers map[string]answer // by host and path, "a:8000/metrics"
	asked   map[string][]time.Time
	bodies  map[string]string // the last ones
	inside  map[string]int
	most    map[string]int // most requests at once, by key and in all ("")
}

func newFleet() *fleet {
	return &fleet{
		answers: make(map[string]answer), asked: make(map[string][]time.Time), bodies: make(map[string]string),
		inside: make(map[string]int), most: make(map[string]int),
	}
}

// pod adds a server that is well, and returns its target.
func (f *fleet) pod(name string) Target {
	host := name + ":8000"
	f.set(host+"/metrics", answer{status: 200, body: twoWaiting})
	f.set(host+"/health", answer{status: 200})
	f.set(host+"/v1/models", answer{status: 200, body: `{"data":[{"id":"m"}]}`})
	return Target{ID: name + "#1", Name: name, BaseURL: "http://" + host}
}

func (f *fleet) set(key string, a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[key] = a
}

func (f *fleet) times(key string) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[key]
}

func (f *fleet) count(key string, by int) {
	f.inside[key] += by
	f.most[key] = max(f.most[key], f.inside[key])
}

func (f *fleet) RoundTrip(req *http.Request) (*http.Response, error) {
	key := req.URL.Host + req.URL.Path
	f.mu.Lock()
	a := f.answers[key]
	f.asked[key] = append(f.asked[key], time.Now())
	if req.Body != nil {
		b, _ := io.ReadAll(req.Body)
		f.bodies[key] = req.Method + " " + req.Header.Get("Content-Type") + " " + string(b)
	}
	f.count(key, 1)
	f.count("", 1)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.count(key, -1)
		f.count("", -1)
	}()
	if err := (clock.Wall{}).Sleep(req.Context(), a.after); err != nil {
		return nil, err
	}
	if a.err != nil {
		return nil, a.err
	}
	body := io.Reader(strings.NewReader(a.body))
	if a.stream != nil {
		body = untilDone{req.Context(), a.stream}
	}
	return &http.Response{
		StatusCode: a.status, ContentLength: -1, Body: io.NopCloser(body), Request: req,
		Header: http.Header{"Content-Type": {textPlain}},
	}, nil
}

// untilDone is a body that ends with its request.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

// diary is a [Sink] that keeps all that it is told, by target ID.
type diary struct {
	mu      sync.Mutex
	scrapes map[string][]Scrape
	probes  map[string][]Probe
	tokens  map[string][]Probe
	models  map[string][][]Model
	errs    map[string][]error
	gpus    map[string][]Measurement
	// When set, Scraped closes entered and waits for hold.
	entered, hold chan struct{}
}

func newDiary() *diary {
	return &diary{
		scrapes: make(map[string][]Scrape), probes: make(map[string][]Probe), tokens: make(map[string][]Probe),
		models: make(map[string][][]Model), errs: make(map[string][]error),
		gpus: make(map[string][]Measurement),
	}
}

func (d *diary) Scraped(t Target, s Scrape) {
	if d.hold != nil {
		close(d.entered)
		<-d.hold
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.scrapes[t.ID] = append(d.scrapes[t.ID], s)
}

func (d *diary) Probed(t Target, p Probe) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probes[t.ID] = append(d.probes[t.ID], p)
}

func (d *diary) Generated(t Target, p Probe) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tokens[t.ID] = append(d.tokens[t.ID], p)
}

func (d *diary) Listed(t Target, models []Model, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.models[t.ID] = append(d.models[t.ID], models)
	d.errs[t.ID] = append(d.errs[t.ID], err)
}

func (d *diary) Measured(t Target, m Measurement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gpus[t.ID] = append(d.gpus[t.ID], m)
}

func (d *diary) counts(id string) [3]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return [3]int{len(d.scrapes[id]), len(d.probes[id]), len(d.errs[id])}
}

// watching runs a watcher of the fleet in a bubble; the returned function ends
// it and waits.
func watching(t *testing.T, f *fleet, cfg Config, targets ...Target) (*Watcher, *diary, func()) {
	t.Helper()
	cfg.Transport = f
	d := newDiary()
	w := NewWatcher(cfg, d)
	w.SetTargets(targets)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w, d, func() { cancel(); wg.Wait() }
}

// pass lets time pass, to just before the next moment when something may happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func within(t *testing.T, what string, got, low, high time.Duration) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s = %v, want %v to %v", what, got, low, high)
	}
}

// trickle is a page of one comment each 10 ms, without end.
type trickle struct{}

func (trickle) Read(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return copy(p, "# still here\n"), nil
}
