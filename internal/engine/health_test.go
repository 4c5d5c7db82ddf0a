package engine

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestHealth(t *testing.T) {
	const hour = time.Hour
	tests := []struct {
		name   string
		answer answer
		want   Probe // but for its time
		after  time.Duration
	}{
		{"well", answer{status: 200}, Probe{Healthy: true}, 0},
		{"a body is no matter", answer{status: 200, body: "<html>"}, Probe{Healthy: true}, 0},
		{"503", answer{status: 503}, Probe{Reason: "HTTP 503 on port 8000"}, 0},
		{"refused", answer{err: syscall.ECONNREFUSED}, Probe{Refused: true, Reason: "connection refused on port 8000"}, 0},
		{"reset", answer{err: syscall.ECONNRESET}, Probe{Reason: "connection closed by the server on port 8000"}, 0},
		{"no answer", answer{status: 200, after: hour}, Probe{Slow: true, Reason: "timeout after 1s"}, time.Second},
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
				probes := d.probes["a#1"]
				if len(probes) < 2 {
					t.Fatalf("%d probes told, want each", len(probes))
				}
				for i, p := range probes {
					tt.want.At = p.At
					if p != tt.want {
						t.Errorf("probe %d = %+v, want %+v", i, p, tt.want)
					}
				}
				within(t, "time of the first probe", probes[0].At.Sub(from), tt.after, tt.after)
			})
		})
	}
}

func TestFailedProbeIsRepeatedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		target := f.pod("a")
		f.set("a:8000/health", answer{status: 503})
		_, d, stop := watching(t, f, Config{ProbeInterval: time.Hour}, target)
		defer stop()
		pass(2500 * time.Millisecond)
		if n := len(d.probes["a#1"]); n != 3 {
			t.Errorf("%d probes in 2.5 s, want 3", n)
		}
		f.set("a:8000/health", answer{status: 200})
		pass(30 * time.Minute)
		if n := len(d.probes["a#1"]); n != 4 || !d.probes["a#1"][3].Healthy {
			t.Errorf("%d probes in half an hour, want one more, that is well", n)
		}
	})
}

func TestShortageOfOurOwnIsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		target := f.pod("a")
		f.set("a:8000/health", answer{err: syscall.EMFILE})
		_, d, stop := watching(t, f, Config{}, target)
		pass(5500 * time.Millisecond)
		stop()
		if p := d.probes["a#1"]; len(p) != 0 {
			t.Errorf("probes %+v, want none", p)
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
