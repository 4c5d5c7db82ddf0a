package engine

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestTokens(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer answer
		want   *Probe // but for its time; nil = nothing is told
		// least and most are how many requests there are in ten minutes.
		least, most int
	}{
		{"answered", answer{status: 200, body: `{"choices":[{"text":"2"}]}`}, &Probe{Healthy: true}, 18, 23},
		{"an error of the engine", answer{status: 500}, &Probe{Reason: "HTTP 500 on port 8000"}, 52, 68},
		{"no answer", answer{after: time.Hour}, &Probe{Slow: true, Reason: "timeout after 10s"}, 26, 34},
		{"refused", answer{err: syscall.ECONNREFUSED}, &Probe{Refused: true, Reason: "connection refused on port 8000"}, 52, 68},
		{"a model that does not generate", answer{status: 400}, nil, 18, 23},
		{"too busy to be asked", answer{status: 429}, nil, 18, 23},
		{"a shortage of our own", answer{err: syscall.EMFILE}, nil, 18, 23},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const path = "a:8000/v1/completions"
				f := newFleet()
				target := f.pod("a")
				f.set(path, test.answer)
				_, d, stop := watching(t, f, Config{GenerateInterval: 30 * time.Second}, target)
				pass(10 * time.Minute)
				stop()
				if n := len(f.times(path)); n < test.least || n > test.most {
					t.Errorf("%d requests in ten minutes, want %d to %d", n, test.least, test.most)
				}
				if want := `POST application/json {"max_tokens":1,"model":"m","prompt":"1","temperature":0}`; f.bodies[path] != want {
					t.Errorf("request %s, want %s", f.bodies[path], want)
				}
				probes := d.tokens["a#1"]
				if (len(probes) == 0) != (test.want == nil) {
					t.Fatalf("%d told, want any: %t", len(probes), test.want != nil)
				}
				for _, p := range probes {
					test.want.At = p.At
					if p != *test.want {
						t.Fatalf("told %+v, want %+v", p, *test.want)
					}
				}
				if h := d.probes["a#1"]; !h[len(h)-1].Healthy {
					t.Errorf("health %+v: the two are apart", h[len(h)-1])
				}
			})
		})
	}
}

func TestNoTokensUnlessWanted(t *testing.T) {
	for name, test := range map[string]struct {
		interval time.Duration
		models   string
	}{
		"off":                {0, `{"data":[{"id":"m"}]}`},
		"no model":           {30 * time.Second, `{"data":[]}`},
		"nothing but a LoRA": {30 * time.Second, `{"data":[{"id":"fr","parent":"m"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				target := f.pod("a")
				f.set("a:8000/v1/models", answer{status: 200, body: test.models})
				_, d, stop := watching(t, f, Config{GenerateInterval: test.interval}, target)
				pass(10 * time.Minute)
				stop()
				if n := len(f.times("a:8000/v1/completions")); n != 0 || len(d.tokens["a#1"]) != 0 {
					t.Errorf("%d requests, %v told; want none", n, d.tokens["a#1"])
				}
			})
		})
	}
}
