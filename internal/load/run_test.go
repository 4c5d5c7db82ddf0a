package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gateway answers the requests of a run, and remembers them.
type gateway struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func newGateway(t *testing.T, answer http.HandlerFunc) *gateway {
	t.Helper()
	g := &gateway{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("body %v, content type %q", err, r.Header.Get("Content-Type"))
		}
		g.mu.Lock()
		g.bodies = append(g.bodies, string(body))
		g.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

func fine(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, `{"choices":[{"message":{"content":"fine"}}]}`)
}

const line = `{"timestamp": %d, "input_length": 1, "output_length": %d, "hash_ids": [1]}`

func TestRunSendsTheTraceInItsTime(t *testing.T) {
	g := newGateway(t, fine)
	clock := &leaps{now: start}
	var lines []string
	for i := range 5 {
		lines = append(lines, fmt.Sprintf(line, 60_000*i, i+1))
	}
	result, err := Run(t.Context(), Config{Source: traceOf(t, 1, lines...), URL: g.URL, Model: "m", Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	if result.Sent != 5 || result.Failed != 0 || result.FirstFailure != "" || !result.Started.Equal(start) || result.Elapsed != 4*time.Minute {
		t.Errorf("result %+v, want 5 sent within 4 minutes", result)
	}
	var sizes []int
	for _, body := range g.bodies {
		var c completion
		if err := json.Unmarshal([]byte(body), &c); err != nil || c.Model != "m" {
			t.Errorf("%v: %s", err, body)
		}
		sizes = append(sizes, c.MaxTokens)
	}
	if slices.Sort(sizes); !slices.Equal(sizes, []int{1, 2, 3, 4, 5}) {
		t.Errorf("requests with max_tokens %v, want each of the trace", sizes)
	}
}

func TestRunStopsAtItsLimit(t *testing.T) {
	g := newGateway(t, fine)
	result, err := Run(t.Context(), Config{Source: NewConversations(5, 1), URL: g.URL, Clock: &leaps{now: start}, Limit: 30})
	if err != nil || result.Sent != 30 || result.Failed != 0 || len(g.bodies) != 30 {
		t.Errorf("result %+v, %v with %d requests; want 30", result, err, len(g.bodies))
	}
}

func TestRunReportsABadTrace(t *testing.T) {
	g := newGateway(t, fine)
	result, err := Run(t.Context(), Config{Source: traceOf(t, 1, fmt.Sprintf(line, 0, 1), "{}"), URL: g.URL, Clock: &leaps{now: start}})
	if err == nil || !strings.Contains(err.Error(), "trace.jsonl:2: timestamp: missing") || result.Sent != 1 {
		t.Errorf("error %v, result %+v", err, result)
	}
}

func TestRunCountsFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"a status", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusTooManyRequests) }, "HTTP 429: busy"},
		{"no choice", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }, "an answer without a choice"},
		{"a cut stream", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"choices\":[")
		}, "an event of a stream"},
		{"a cut connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGateway(t, tc.answer)
			result, err := Run(t.Context(), Config{Source: NewConversations(5, 1), URL: g.URL, Clock: &leaps{now: start}, Limit: 3})
			if err != nil || result.Sent != 3 || result.Failed != 3 || !strings.Contains(result.FirstFailure, tc.want) {
				t.Errorf("result %+v, %v; want three failures with %q", result, err, tc.want)
			}
		})
	}
}

func TestEndOfTheContextStopsArrivalsAndRequests(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := newGateway(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done() // until the client hangs up
	})
	result, err := Run(ctx, Config{Source: NewConversations(5, 1), URL: g.URL, Clock: &leaps{now: start}, Limit: maxOpen})
	if err != nil || result.Sent == 0 || result.Failed != result.Sent {
		t.Errorf("result %+v, %v; want the running requests cut", result, err)
	}
}

func TestRequestsMayFinishWithinTheDrainTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := newGateway(t, func(w http.ResponseWriter, r *http.Request) {
		cancel()
		fine(w, r)
	})
	trace := traceOf(t, 1, fmt.Sprintf(line, 0, 1))
	result, err := Run(ctx, Config{Source: trace, URL: g.URL, Clock: &leaps{now: start}, Drain: time.Minute})
	if err != nil || result.Sent != 1 || result.Failed != 0 {
		t.Errorf("result %+v, %v; want the running request finished", result, err)
	}
}

func TestAnswersContinueTheConversation(t *testing.T) {
	g := newGateway(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"well \"}}]}\n\n: ping\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"done\"}}]}\n\ndata: {\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n")
	})
	source := NewConversations(5, 1)
	if _, err := Run(t.Context(), Config{Source: source, URL: g.URL, Clock: &leaps{now: start}, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	if len(source.idle) != 1 || !slices.Contains(source.idle[0].messages, message{"assistant", "well done"}) {
		t.Errorf("waiting conversations: %+v", source.idle)
	}
}

func TestProgressIsReportedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var seen []Progress
		r := &runner{cfg: Config{Clock: &leaps{now: start.Add(time.Hour)}, Progress: func(p Progress) { seen = append(seen, p) }}}
		r.sent.Store(3)
		r.failed.Store(1)
		var wg sync.WaitGroup
		wg.Go(func() { r.report(ctx, start) })
		time.Sleep(2500 * time.Millisecond)
		cancel()
		wg.Wait()
		want := Progress{Sent: 3, Failed: 1, Elapsed: time.Hour}
		if !slices.Equal(seen, []Progress{want, want}) {
			t.Errorf("progress %+v, want %+v twice", seen, want)
		}
	})
}
