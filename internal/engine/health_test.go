package engine

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

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
