package admin

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/telemetry"
	"github.com/eppctl/eppctl/score"
)

const better = `{"cache":0.5,"load":0.3,"queue":0.1,"health":0.05,"adapter":0.05}`

func put(body, ifMatch string) request {
	q := request{method: "PUT", path: "/v1/config/weights", body: body, header: map[string]string{}}
	if ifMatch != "" {
		q.header["If-Match"] = ifMatch
	}
	return q
}

func TestPutWeights(t *testing.T) {
	var log bytes.Buffer
	deps := newDeps()
	deps.AllowWrite, deps.Logger = true, logTo(&log)
	h := NewServer(deps)

	tag := ask(t, h, request{path: "/v1/config/weights"}).Header().Get("ETag")
	if tag != `"0"` {
		t.Fatalf("ETag = %s, want \"0\"", tag)
	}
	w := ask(t, h, put(strings.Replace(better, "{", `{"maxQueue":12,"saturation":"reject",`, 1), tag))
	var doc Weights
	decode(t, w, &doc)
	if w.Code != 200 || w.Header().Get("ETag") != `"1"` || doc.Generation != 1 {
		t.Fatalf("answer = %d, ETag %s, %+v, want generation 1", w.Code, w.Header().Get("ETag"), doc)
	}
	want := score.Weights{
		Cache: .5, Load: .3, Queue: .1, Health: .05, Adapter: .05, MaxQueue: 12, MaxUtilization: 1, Saturation: score.Reject, Generation: 1,
	}
	if diff := cmp.Diff(&want, deps.Picker.Weights()); diff != "" {
		t.Errorf("weights in force (-want +got):\n%s", diff)
	}
	if !strings.Contains(log.String(), `"msg":"weights changed","generation":1`) || !strings.Contains(log.String(), `"previous":{"cache":0.6`) {
		t.Errorf("log = %s, want the change in it", log.String())
	}

	w = ask(t, h, put(better, tag))
	var f Failure
	decode(t, w, &f)
	if w.Code != 412 || f.Error.Code != CodeGenerationChanged || f.Generation == nil || *f.Generation != 1 {
		t.Errorf("old generation: answer = %d %+v, want 412 that names generation 1", w.Code, f)
	}
}

func TestWhatGetGivesCanBePut(t *testing.T) {
	deps := newDeps()
	deps.AllowWrite = true
	h := NewServer(deps)
	got := ask(t, h, request{path: "/v1/config/weights"})
	if w := ask(t, h, put(got.Body.String(), got.Header().Get("ETag"))); w.Code != 200 {
		t.Errorf("answer = %d %s, want 200", w.Code, w.Body)
	}
}

func TestPutWeightsRefused(t *testing.T) {
	for _, test := range []struct {
		name    string
		request request
		status  int
		want    string
	}{
		{"no If-Match", put(better, ""), 428, "If-Match is missing"},
		{"any generation", put(better, "*"), 400, `If-Match: must be one generation, got "*"`},
		{"sum", put(strings.Replace(better, "0.5,", "0.6,", 1), `"0"`), 422, "weights: sum is 1.0999999999999999 (cache 0.6 + load 0.3 + queue 0.1 + health 0.05 + adapter 0.05), must be 1"},
		{"out of range", put(strings.Replace(better, "0.5,", "-0.5,", 1), "0"), 422, "weights.cache: must be between 0 and 1"},
		{"a weight is missing", put(`{"cache":1}`, `"0"`), 400, "weights are missing: load, queue, health, adapter"},
		{"unknown field", put(`{"cach":1}`, `"0"`), 400, `the body: unknown field "cach"`},
		{"unknown scorer", put(strings.Replace(better, "{", `{"custom":[{"name":"cost","weight":0}],`, 1), `"0"`), 400, `custom: no scorer is called "cost"`},
		{"saturation", put(strings.Replace(better, "{", `{"saturation":"never",`, 1), `"0"`), 400, `saturation: must be relax or reject, got "never"`},
		{"maxQueue", put(strings.Replace(better, "{", `{"maxQueue":0,`, 1), `"0"`), 422, "maxQueue: must be at least 1"},
		{"no JSON", put(`cache: 1`, `"0"`), 400, "the body: invalid character"},
		{"empty", put(``, `"0"`), 400, "the body: EOF"},
		{"two documents", put(better+better, `"0"`), 400, "the body: more than one JSON document"},
		{"huge", put(`{"cache":`+strings.Repeat(" ", maxBody)+`1}`, `"0"`), 413, "the body is longer than 65536 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			deps := newDeps()
			deps.AllowWrite = true
			w := ask(t, NewServer(deps), test.request)
			var f Failure
			decode(t, w, &f)
			if w.Code != test.status || !strings.Contains(f.Error.Message, test.want) {
				t.Errorf("answer = %d %+v, want %d with %q", w.Code, f.Error, test.status, test.want)
			}
			if got := deps.Picker.Weights().Generation; got != 0 {
				t.Errorf("generation = %d: something was changed", got)
			}
		})
	}
}

func TestCustomWeights(t *testing.T) {
	deps := newDeps()
	deps.AllowWrite = true
	current := score.Default()
	current.Cache, current.Custom = .55, []score.CustomWeight{{Name: "cost", Weight: .05}}
	deps.Picker = &fakePicker{current: current}
	h := NewServer(deps)
	if w := ask(t, h, put(better, `"0"`)); w.Code != 400 || !strings.Contains(w.Body.String(), "weights are missing: custom cost") {
		t.Errorf("answer = %d %s, want the scorer's weight asked for", w.Code, w.Body)
	}
	if w := ask(t, h, put(strings.Replace(better, "{", `{"custom":[{"name":"cost","weight":0},{"name":"cost","weight":0}],`, 1), `"0"`)); w.Code != 400 {
		t.Errorf("answer = %d %s, want a double name refused", w.Code, w.Body)
	}
	if w := ask(t, h, put(strings.Replace(better, "{", `{"custom":[{"name":"cost","weight":0}],`, 1), `"0"`)); w.Code != 200 {
		t.Errorf("answer = %d %s, want 200", w.Code, w.Body)
	}
	if got := deps.Picker.Weights().Custom[0].Weight; got != 0 {
		t.Errorf("weight of cost = %v, want 0", got)
	}
}

func TestPutLogLevel(t *testing.T) {
	deps := newDeps()
	deps.AllowWrite = true
	var log bytes.Buffer
	deps.Logger = telemetry.Logger(&log, deps.Level)
	h := NewServer(deps)
	w := ask(t, h, request{method: "PUT", path: "/v1/log-level", body: `{"level":"error"}`})
	if w.Code != 200 || deps.Level.Level() != slog.LevelError {
		t.Errorf("answer = %d %s, level %v, want error", w.Code, w.Body, deps.Level.Level())
	}
	if !strings.Contains(log.String(), `"msg":"log level changed","logLevel":"error","previous":"info"`) {
		t.Errorf("log = %s, want the change in it", log.String())
	}
	for _, body := range []string{`{"level":"loud"}`, `{"level":7}`, `{}`} {
		if w := ask(t, h, request{method: "PUT", path: "/v1/log-level", body: body}); w.Code != 400 || deps.Level.Level() != slog.LevelError {
			t.Errorf("%s: answer = %d, level %v, want 400 and no change", body, w.Code, deps.Level.Level())
		}
	}
}
