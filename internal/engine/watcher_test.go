package engine

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/clock"
)

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

// The jitter spreads the targets, but not so that each wakes the process up.
func TestTargetsShareTheirMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		var targets []Target
		for i := range 100 {
			targets = append(targets, f.pod(fmt.Sprint("pod-", i)))
		}
		_, _, stop := watching(t, f, Config{}, targets...)
		pass(10 * time.Second)
		stop()
		moments, most := map[time.Time]int{}, 0
		for _, target := range targets {
			for _, at := range f.times(target.Name + ":8000/metrics") {
				moments[at]++
			}
		}
		for at := time.Now().Add(-2 * time.Second).Truncate(time.Second); at.Before(time.Now()); at = at.Add(10 * time.Millisecond) {
			most = max(most, moments[at])
		}
		if len(moments) > 1001 || most > 30 {
			t.Errorf("%d moments in 10 s, want at most one each 10 ms; %d scrapes at one, with 5 on average", len(moments), most)
		}
	})
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

// case M5, case M8: through the watcher, the reason of a failed scrape, on the
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
		want := Probe{Refused: true, Reason: "connection refused on port 8000", At: s[len(s)-1].End}
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
