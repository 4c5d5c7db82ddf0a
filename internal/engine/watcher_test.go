package engine

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
	inside  map[string]int
	most    map[string]int // most requests at once, by key and in all ("")
}

func newFleet() *fleet {
	return &fleet{
		answers: make(map[string]answer), asked: make(map[string][]time.Time),
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
	models  map[string][][]Model
	errs    map[string][]error
	// When set, Scraped closes entered and waits for hold.
	entered, hold chan struct{}
}

func newDiary() *diary {
	return &diary{
		scrapes: make(map[string][]Scrape), probes: make(map[string][]Probe),
		models: make(map[string][][]Model), errs: make(map[string][]error),
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

func (d *diary) Listed(t Target, models []Model, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.models[t.ID] = append(d.models[t.ID], models)
	d.errs[t.ID] = append(d.errs[t.ID], err)
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
	cfg.Client = &http.Client{Transport: f}
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

func TestScrapesAtItsInterval(t *testing.T) {
	for name, c := range map[string]func() clock.Clock{
		"wall":           func() clock.Clock { return clock.Wall{} },
		"at speed 20":    func() clock.Clock { return clock.NewScaled(20) },
		"at speed 1/100": func() clock.Clock { return clock.NewScaled(0.01) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clk := c()
				f := newFleet()
				_, d, stop := watching(t, f, Config{Clock: clk}, f.pod("a"))
				pass(time.Duration(float64(10*time.Second) / clk.Scale()))
				stop()
				s := d.scrapes["a#1"]
				// 10 s at 200 ms each, give or take the jitter.
				if n := len(s); n < 46 || n > 56 {
					t.Errorf("%d scrapes in 10 s at 200 ms", n)
				}
				for i := range len(s) - 1 {
					within(t, "interval", s[i+1].Start.Sub(s[i].Start), 179*time.Millisecond, 221*time.Millisecond)
				}
				if diff := cmp.Diff(val("vllm:num_requests_waiting", 2), s[0].Page.Waiting); diff != "" {
					t.Errorf("waiting (-want +got):\n%s", diff)
				}
				if n := len(d.probes["a#1"]); n < 9 || n > 12 {
					t.Errorf("%d probes in 10 s at 1 s", n)
				}
				if n := len(d.errs["a#1"]); n < 2 || n > 3 {
					t.Errorf("%d lists of models in 10 s at 5 s", n)
				}
			})
		})
	}
}

func TestFirstAnswersComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		_, d, stop := watching(t, f, Config{}, f.pod("a"))
		defer stop()
		synctest.Wait()
		if got := d.counts("a#1"); got != [3]int{1, 1, 1} {
			t.Errorf("scrapes, probes, lists at the start = %v, want one each", got)
		}
		if diff := cmp.Diff([][]Model{{{ID: "m"}}}, d.models["a#1"]); diff != "" {
			t.Errorf("models (-want +got):\n%s", diff)
		}
		if p := d.probes["a#1"][0]; !p.Healthy || p.Reason != "" {
			t.Errorf("probe = %+v, want healthy", p)
		}
	})
}

func TestSlowPageStretchesTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		target := f.pod("a")
		f.set("a:8000/metrics", answer{status: 200, body: twoWaiting, after: 700 * time.Millisecond})
		_, d, stop := watching(t, f, Config{}, target)
		pass(8 * time.Second)
		stop()
		s := d.scrapes["a#1"]
		if len(s) < 8 {
			t.Fatalf("%d scrapes in 8 s of a page that takes 0.7 s", len(s))
		}
		for i := range len(s) - 1 {
			within(t, "pause after the answer", s[i+1].Start.Sub(s[i].End), 90*time.Millisecond, 110*time.Millisecond)
		}
		if got := f.most["a:8000/metrics"]; got != 1 {
			t.Errorf("%d scrapes of one target at once", got)
		}
	})
}

// cases M5 and M8, through the watcher: the reason of a failed scrape, on the
// scrape and on each value; and the other pod is unaffected.
func TestReasonsOfFailedScrapes(t *testing.T) {
	tests := []struct {
		name   string
		answer answer
		want   string
	}{
		{"404 (M5)", answer{status: 404, body: "not found"}, "HTTP 404 on port 8000"},
		{"redirect without a goal", answer{status: 307}, "HTTP 307 on port 8000"},
		{"refused", answer{err: syscall.ECONNREFUSED}, "connection refused on port 8000"},
		{"reset", answer{err: syscall.ECONNRESET}, "connection closed by the server on port 8000"},
		{"timeout", answer{status: 200, after: time.Hour}, "timeout after 1s"},
		{"transport's words", answer{err: errors.New("odd\x1b[31m thing")}, "odd?[31m thing"},
		{"HTML (M8)", answer{status: 200, body: "<html>"}, "page is HTML, not metrics"},
		{"5 MB (M8)", answer{status: 200, body: strings.Repeat("x\n", 5<<19)}, "read page: longer than 4194304 bytes"},
		{"never ends (M8)", answer{status: 200, stream: trickle{}}, "timeout after 1s"},
		{"NaN (M8)", answer{status: 200, body: "vllm:num_requests_waiting NaN\n"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				a, b := f.pod("a"), f.pod("b")
				f.set("a:8000/metrics", tt.answer)
				_, d, stop := watching(t, f, Config{}, a, b)
				pass(3 * time.Second)
				stop()
				s := d.scrapes["a#1"][0]
				if s.Page.Waiting.Known {
					t.Errorf("waiting = %+v, want unknown", s.Page.Waiting)
				}
				if tt.want == "" {
					if s.Err != nil || s.Page.Waiting.Reason != "vllm:num_requests_waiting is NaN" {
						t.Errorf("error %v, waiting %+v", s.Err, s.Page.Waiting)
					}
				} else if s.Err == nil || s.Err.Error() != tt.want {
					t.Errorf("error %v, want %s", s.Err, tt.want)
				} else if diff := cmp.Diff(unknownPage(tt.want), s.Page); diff != "" {
					t.Errorf("page (-want +got):\n%s", diff)
				}
				if n := len(d.scrapes["b#1"]); n < 13 || d.scrapes["b#1"][n-1].Err != nil {
					t.Errorf("the other pod was scraped %d times in 3 s", n)
				}
			})
		})
	}
}

// trickle is a page of one comment each 10 ms, without end.
type trickle struct{}

func (trickle) Read(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return copy(p, "# still here\n"), nil
}

func TestBacksOffAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		target := f.pod("a")
		f.set("a:8000/metrics", answer{status: 503})
		_, d, stop := watching(t, f, Config{}, target)
		pass(40 * time.Second)
		s := d.scrapes["a#1"]
		for i, want := range []time.Duration{400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond, 5 * time.Second, 5 * time.Second, 5 * time.Second} {
			within(t, "pause after a failure", s[i+1].Start.Sub(s[i].End), want*9/10, want*11/10)
		}
		f.set("a:8000/metrics", answer{status: 200, body: twoWaiting})
		pass(8 * time.Second)
		stop()
		s = d.scrapes["a#1"]
		last := len(s) - 1
		within(t, "interval when it is back", s[last].Start.Sub(s[last-1].Start), 179*time.Millisecond, 221*time.Millisecond)
	})
}

func TestRefusedScrapeIsAFailedProbeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		target := f.pod("a")
		_, d, stop := watching(t, f, Config{ProbeInterval: time.Hour}, target)
		defer stop()
		synctest.Wait()
		f.set("a:8000/metrics", answer{err: syscall.ECONNREFUSED})
		pass(230 * time.Millisecond)
		probes := d.probes["a#1"]
		if len(probes) != 2 {
			t.Fatalf("%d probes, want the first and the refusal", len(probes))
		}
		s := d.scrapes["a#1"]
		want := Probe{Reason: "connection refused on port 8000", At: s[len(s)-1].End}
		if diff := cmp.Diff(want, probes[1]); diff != "" {
			t.Errorf("probe (-want +got):\n%s", diff)
		}
	})
}

func TestServerThatIsBackIsScrapedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		target := f.pod("a")
		for _, path := range []string{"/metrics", "/health", "/v1/models"} {
			f.set("a:8000"+path, answer{err: syscall.ECONNREFUSED})
		}
		_, d, stop := watching(t, f, Config{}, target)
		pass(time.Minute)
		f.pod("a")
		before := d.counts("a#1")
		pass(1150 * time.Millisecond) // one probe at most
		stop()
		after := d.counts("a#1")
		if p := d.probes["a#1"]; !p[len(p)-1].Healthy {
			t.Fatal("the server was not found back within a probe's interval")
		}
		if after[0] == before[0] || after[2] == before[2] {
			t.Errorf("scrapes and lists before %v and after %v the recovery: both should have been tried", before, after)
		}
	})
}

func TestHealth(t *testing.T) {
	tests := []struct {
		name   string
		answer answer
		// want are the probes of the first 5.5 s, "" for healthy.
		first string
		after time.Duration // when the first probe that says so is due, at most
	}{
		{"503", answer{status: 503}, "HTTP 503 on port 8000", 0},
		{"refused", answer{err: syscall.ECONNREFUSED}, "connection refused on port 8000", 0},
		{"three timeouts", answer{status: 200, after: time.Hour}, "timeout after 1s, 3 times in a row", 5300 * time.Millisecond},
		{"three resets", answer{err: syscall.ECONNRESET}, "connection closed by the server on port 8000, 3 times in a row", 2300 * time.Millisecond},
		{"a body is no matter", answer{status: 200, body: "<html>"}, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				target := f.pod("a")
				f.set("a:8000/health", tt.answer)
				from := time.Now()
				_, d, stop := watching(t, f, Config{}, target)
				pass(5500 * time.Millisecond)
				stop()
				if len(d.probes["a#1"]) == 0 {
					t.Fatal("no probe told")
				}
				p := d.probes["a#1"][0]
				if p.Reason != tt.first || p.Healthy != (tt.first == "") {
					t.Errorf("first probe = %+v, want reason %q", p, tt.first)
				}
				within(t, "time of the first probe", p.At.Sub(from), tt.after*3/4, tt.after)
			})
		})
	}
}

func TestSingleTimeoutsAreNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		target := f.pod("a")
		_, d, stop := watching(t, f, Config{}, target)
		for range 5 { // two timeouts, then answers again
			f.set("a:8000/health", answer{status: 200, after: time.Hour})
			for n := len(f.times("a:8000/health")); len(f.times("a:8000/health")) < n+2; {
				pass(10 * time.Millisecond)
			}
			f.set("a:8000/health", answer{status: 200})
			pass(4 * time.Second)
		}
		stop()
		for i, p := range d.probes["a#1"] {
			if !p.Healthy {
				t.Errorf("probe %d = %+v, want healthy", i, p)
			}
		}
	})
}

func TestFailedListIsRetriedSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		target := f.pod("a")
		f.set("a:8000/v1/models", answer{status: 500})
		_, d, stop := watching(t, f, Config{}, target)
		defer stop()
		pass(2 * time.Second)
		if got := d.errs["a#1"]; len(got) != 3 || got[0].Error() != "HTTP 500 on port 8000" || d.models["a#1"][0] != nil {
			t.Errorf("lists in 2 s = %v, want three failures", got)
		}
	})
}

func TestTargetLeftOutIsNeverHeardOfAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		a, b := f.pod("a"), f.pod("b")
		f.set("a:8000/metrics", answer{status: 200, body: twoWaiting, after: 500 * time.Millisecond})
		w, d, stop := watching(t, f, Config{}, a, b)
		defer stop()
		pass(250 * time.Millisecond) // a's scrape is under way
		before := d.counts("a#1")
		w.SetTargets([]Target{b})
		asked := len(f.times("a:8000/health"))
		pass(10 * time.Second)
		if got := d.counts("a#1"); got != before {
			t.Errorf("scrapes, probes, lists of a target that was left out: %v, then %v", before, got)
		}
		if got := len(f.times("a:8000/health")); got != asked {
			t.Errorf("it was asked %d more times", got-asked)
		}
		if got := d.counts("b#1"); got[0] < 40 {
			t.Errorf("the other target was scraped %d times in 10 s", got[0])
		}
		if again := f.times("b:8000/v1/models"); len(again) > 3 {
			t.Errorf("the other target was started again: %d lists", len(again))
		}
	})
}

// Not in a bubble: a goroutine that waits for a mutex does not count as idle.
func TestSetTargetsWaitsForADelivery(t *testing.T) {
	f := newFleet()
	d := newDiary()
	d.entered, d.hold = make(chan struct{}), make(chan struct{})
	w := NewWatcher(Config{ScrapeInterval: time.Hour, Client: &http.Client{Transport: f}}, d)
	w.SetTargets([]Target{f.pod("a")})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	<-d.entered
	told := make(chan int, 1)
	wg.Go(func() {
		w.SetTargets(nil)
		told <- d.counts("a#1")[0]
	})
	close(d.hold)
	if got := <-told; got != 1 {
		t.Errorf("%d scrapes had been told when SetTargets returned, want the one under way", got)
	}
	cancel()
	wg.Wait()
}

func TestTargetThatMovedStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		a := f.pod("a")
		w, d, stop := watching(t, f, Config{}, a)
		defer stop()
		synctest.Wait()
		moved := f.pod("b")
		moved.ID = a.ID
		w.SetTargets([]Target{moved, moved})
		pass(3 * time.Second)
		if got := len(f.times("a:8000/metrics")); got != 1 {
			t.Errorf("the old address was asked %d times", got)
		}
		if got := d.counts("a#1"); got[0] < 13 || got[0] > 19 {
			t.Errorf("%d scrapes in 3 s, want those of one target", got[0])
		}
	})
}

func TestScrapesAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		var targets []Target
		for i := range 20 {
			pod := f.pod(string(rune('a' + i)))
			f.set(pod.Name+":8000/metrics", answer{status: 200, body: twoWaiting, after: 50 * time.Millisecond})
			f.set(pod.Name+":8000/health", answer{status: 200, after: 50 * time.Millisecond})
			targets = append(targets, pod)
		}
		_, d, stop := watching(t, f, Config{MaxConcurrent: 3}, targets...)
		pass(5 * time.Second)
		stop()
		if got := f.most[""]; got > 6 {
			t.Errorf("%d requests at once, want at most 3 scrapes and 3 others", got)
		}
		for _, target := range targets {
			if got := d.counts(target.ID); got[0] < 5 || got[1] < 2 {
				t.Errorf("%s: scrapes, probes, lists = %v in 5 s", target.Name, got)
			}
		}
	})
}

func TestInvalidAddress(t *testing.T) {
	for _, address := range []string{"", "10.0.0.7:8000", "ftp://a:8000", "http://", "http://a:port"} {
		t.Run(address, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, d, stop := watching(t, newFleet(), Config{}, Target{ID: "x", BaseURL: address})
				synctest.Wait()
				stop()
				s := d.scrapes["x"]
				if len(s) != 1 || s[0].Err == nil || s[0].Err.Error() != "endpoint's URL is not http://host:port" {
					t.Errorf("scrapes = %+v", s)
				}
			})
		})
	}
}

func TestRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, stop := watching(t, newFleet(), Config{})
		synctest.Wait()
		if err := w.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("second Run: %v, want ErrRunning", err)
		}
		stop()
	})
}
