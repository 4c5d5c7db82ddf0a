package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/fleet"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// watchBy is a watch of the pods of [views].
func watchBy(c clock.Clock) *fleet.Watch {
	return fleet.New(fleet.Config{
		Clock: c, Pods: views, Tree: func() prefix.Stats { return prefix.Stats{Blocks: 12} },
		Weights: func() *score.Weights { return new(score.Default()) }, Open: func() int { return 3 }, Policy: "scores",
	})
}

// newFleet has looked once.
func newFleet() *fleet.Watch {
	w := watchBy(stopped{start.Add(time.Minute)})
	w.Look()
	return w
}

// refusal is a decision of which nobody gets a pod.
func refusal(id string) *record.Entry {
	return &record.Entry{
		RequestID: id, Policy: "scores", Model: "llama", Picked: -1, PredictedCached: -1,
		Inputs:   &score.Inputs{Request: &score.InferenceRequest{Arrival: start}, Weights: new(score.Default())},
		Decision: &score.Decision{Winner: -1, RunnerUp: -1, Refused: score.Saturated, DecidedBy: score.ByNothing},
	}
}

func TestSnapshotIsTheNewest(t *testing.T) {
	server, client := serve(t, newDeps())
	s, err := client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Kind != explain.KindSnapshot || s.APIVersion != APIVersion || s.Router.Server != server.URL || s.Router.InFlight != 3 || len(s.Pods) != 3 ||
		s.Pods[0].Pod != "pod-1" || *s.Index.Blocks != 12 || s.Verdict.Code != explain.VerdictOK {
		t.Errorf("snapshot %+v", s)
	}
}

func TestSnapshotBeforeTheFirstLook(t *testing.T) {
	deps := newDeps()
	deps.Fleet = watchBy(clock.Wall{})
	_, client := serve(t, deps)
	_, err := client.Snapshot(t.Context())
	if refused, ok := errors.AsType[*RequestError](err); !ok || refused.Status != 503 || refused.Code != CodeNotReady || refused.Hint == "" {
		t.Errorf("error %v", err)
	}
}

func TestStreamOfAFleet(t *testing.T) {
	deps := newDeps()
	deps.Fleet = watchBy(clock.Wall{})
	deps.Fleet.Look()
	server := httptest.NewUnstartedServer(NewServer(deps))
	server.Config.ReadTimeout = 20 * time.Millisecond // is for requests
	server.Start()
	t.Cleanup(server.Close)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { _ = deps.Fleet.Run(ctx) })
	defer running.Wait()

	var seen []string
	snapshots := 0
	err := newClient(t, server.URL).Stream(t.Context(), MinInterval, func(l *StreamLine) error {
		switch {
		case l.Hello != nil:
			seen = append(seen, "hello")
			if l.Hello.Kind != "Stream" || l.Hello.APIVersion != APIVersion || l.Hello.Interval != .1 || l.Hello.TimeScale != 1 || l.Hello.Version != "v0.1.0" {
				t.Errorf("hello %+v", l.Hello)
			}
		case l.Snapshot != nil:
			if snapshots++; snapshots == 1 {
				seen = append(seen, "snapshot")
				deps.Fleet.Picked(refusal("one"))
			}
			if l.Snapshot.Router.Server != server.URL {
				t.Errorf("server %q", l.Snapshot.Router.Server)
			}
			if snapshots == 4 {
				stop()
			}
		case l.Decision != nil:
			seen = append(seen, "decision "+l.Decision.RequestID)
		case l.End != nil:
			seen = append(seen, "end")
		}
		return nil
	})
	gone, ok := errors.AsType[*UnreachableError](err)
	if !ok || !strings.Contains(gone.Error(), "the picker is shutting down") {
		t.Errorf("error %v", err)
	}
	if got := strings.Join(seen, ", "); got != "hello, snapshot, decision one, end" || snapshots < 4 {
		t.Errorf("%s, and %d snapshots", got, snapshots)
	}
}

func TestStreamEndsWithItsVisitorAndContext(t *testing.T) {
	_, client := serve(t, newDeps())
	enough := errors.New("enough")
	if err := client.Stream(t.Context(), time.Second, func(*StreamLine) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("error %v, want the visitor's", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := client.Stream(ctx, time.Second, func(*StreamLine) error { cancel(enough); return nil })
	if !errors.Is(err, enough) {
		t.Errorf("error %v, want the context's cause", err)
	}
}

func TestStreamIntervals(t *testing.T) {
	for interval, want := range map[string]string{
		"":          "",
		"100ms":     "",
		"1m":        "",
		"99ms":      "must be a duration from 100ms to 1m0s, got \"99ms\"",
		"61s":       "must be a duration",
		"5":         "must be a duration",
		"soon":      "must be a duration",
		"1s&x=1":    "unknown",
		"-1s":       "must be a duration",
		"NaNs":      "must be a duration",
		"1e9999999": "must be a duration",
	} {
		query := "?interval=" + interval
		if interval == "" {
			query = ""
		}
		w := ask(t, NewServer(newDeps()), request{method: http.MethodHead, path: "/v1/stream" + query})
		if ok := w.Code == http.StatusOK; ok != (want == "") {
			t.Errorf("interval %q: status %d", interval, w.Code)
		}
		if want == "" {
			continue
		}
		var f Failure
		decode(t, ask(t, NewServer(newDeps()), request{path: "/v1/stream" + query}), &f)
		if f.Error.Code != CodeBadRequest || !strings.Contains(f.Error.Message, want) {
			t.Errorf("interval %q: %+v", interval, f.Error)
		}
	}
}

func TestTooManyReaders(t *testing.T) {
	deps := newDeps()
	for range fleet.MaxReaders {
		reader, _ := deps.Fleet.Subscribe()
		defer reader.Close()
	}
	_, client := serve(t, deps)
	err := client.Stream(t.Context(), time.Second, func(*StreamLine) error { return nil })
	if refused, ok := errors.AsType[*RequestError](err); !ok || refused.Status != 503 || refused.Code != CodeTooManyReaders || refused.Hint == "" {
		t.Errorf("error %v", err)
	}
}

// stuck is a connection whose other end does not read: writes last until their
// deadline.
type stuck struct {
	header   http.Header
	deadline time.Time
	wrote    int
}

func (s *stuck) Header() http.Header { return s.header }
func (s *stuck) WriteHeader(int)     {}
func (s *stuck) FlushError() error   { return nil }

func (s *stuck) SetReadDeadline(time.Time) error { return nil }

func (s *stuck) SetWriteDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.wrote++; s.wrote < 3 { // hello and the first snapshot still fit
		return len(p), nil
	}
	time.Sleep(time.Until(s.deadline))
	return 0, os.ErrDeadlineExceeded
}

// A client that does not read is let go after a while, and holds up no decision
// before that.
func TestClientThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deps := newDeps()
		deps.Fleet = watchBy(clock.Wall{})
		deps.Fleet.Look()
		begun := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/stream", nil)
			r.Host = "localhost"
			NewServer(deps).ServeHTTP(&stuck{header: http.Header{}}, r)
		}()
		synctest.Wait()
		for i := range 3 * fleet.MaxLines {
			deps.Fleet.Picked(refusal(fmt.Sprint(i)))
		}
		if passed := time.Since(begun); passed != 0 {
			t.Errorf("decisions took %v", passed)
		}
		deps.Fleet.Look()
		if s := deps.Fleet.Snapshot(); s.Router.Streams != 1 || s.Router.Dropped < fleet.MaxLines {
			t.Errorf("%d readers, %d lines dropped", s.Router.Streams, s.Router.Dropped)
		}
		<-done
		deps.Fleet.Look()
		if s, passed := deps.Fleet.Snapshot(), time.Since(begun); s.Router.Streams != 0 || passed > followTimeout+time.Second {
			t.Errorf("%d readers after %v", s.Router.Streams, passed)
		}
	})
}

// silent answers with the head of a stream and nothing more.
type silent struct{}

// RoundTrip implements [http.RoundTripper].
func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	body, stop := io.Pipe()
	context.AfterFunc(r.Context(), func() { stop.CloseWithError(context.Cause(r.Context())) })
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{apiHeader: {APIVersion}}, Body: body}, nil
}

func TestStreamThatFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := NewClient("http://picker.test", ClientOptions{Transport: silent{}})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		err = client.Stream(t.Context(), 2*time.Second, func(*StreamLine) error { return nil })
		gone, ok := errors.AsType[*UnreachableError](err)
		if passed := time.Since(begun); !ok || !errors.Is(gone.Err, errSilent) || passed != 2*time.Second+patience {
			t.Errorf("after %v: %v", passed, err)
		}
	})
}

// mute takes calls and never answers.
type mute struct{}

// RoundTrip implements [http.RoundTripper].
func (mute) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestStreamOfAPickerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := NewClient("http://picker.test", ClientOptions{Transport: mute{}})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		err = client.Stream(t.Context(), time.Minute, func(*StreamLine) error { return nil })
		gone, ok := errors.AsType[*UnreachableError](err)
		if passed := time.Since(begun); !ok || !errors.Is(gone.Err, errMute) || passed != patience {
			t.Errorf("after %v: %v", passed, err)
		}
	})
}

// babble answers every call with the same text.
type babble string

// RoundTrip implements [http.RoundTripper].
func (b babble) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{apiHeader: {APIVersion}}, Body: io.NopCloser(strings.NewReader(string(b)))}, nil
}

func TestWhatIsNoSnapshot(t *testing.T) {
	for _, doc := range []string{`{}`, `{"apiVersion":"eppctl/v1","kind":"Tree"}`, `{"apiVersion":"eppctl/v9","kind":"Snapshot"}`} {
		want := func(t *testing.T, err error) {
			t.Helper()
			if _, ok := errors.AsType[*UnreachableError](err); !ok || !strings.Contains(err.Error(), "no snapshot") {
				t.Errorf("%s: error %v", doc, err)
			}
		}
		client, err := NewClient("http://picker.test", ClientOptions{Transport: babble(doc)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Snapshot(t.Context())
		want(t, err)
		client, err = NewClient("http://picker.test", ClientOptions{Transport: babble(`{"snapshot":` + doc + "}\n")})
		if err != nil {
			t.Fatal(err)
		}
		want(t, client.Stream(t.Context(), time.Second, func(*StreamLine) error {
			t.Errorf("%s is shown", doc)
			return nil
		}))
	}
}
