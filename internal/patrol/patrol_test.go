package patrol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/nettest"
)

// serve answers with a page until the test ends, and keeps the token that was sent
// last.
func serve(t *testing.T, answer func(http.ResponseWriter), token *atomic.Value) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
		answer(w)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/metrics"
}

// A picker and four engines over HTTP: one that is well, one that nobody listens for,
// one that is broken, and a page that is no engine's.
func TestLook(t *testing.T) {
	var picks atomic.Int64
	var token atomic.Value
	picker := serve(t, func(w http.ResponseWriter) {
		n := int(picks.Add(7))
		_, _ = io.WriteString(w, llmd(map[string]int{"well": n}, map[string]int{"well": 0}))
	}, &token)
	well := serve(t, func(w http.ResponseWriter) { _, _ = io.WriteString(w, vllm(4, 1)) }, &token)
	broken := serve(t, func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, &token)
	stranger := serve(t, func(w http.ResponseWriter) { _, _ = io.WriteString(w, "up 1\n") }, &token)
	nobody := "http://" + nettest.Refusing(t) + "/metrics"

	p := New(Config{Clock: clock.Wall{}, Pages: Pages{Pickers: []string{picker}, Engines: []Engine{
		{"well", well}, {"nobody", nobody}, {"broken", broken}, {"stranger", stranger},
	}}})
	defer p.Close()
	if _, err := p.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := p.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pod := range s.Pods {
		got = append(got, fmt.Sprintf("%s %s %s", pod.Pod, pod.State, pod.Reason))
	}
	want := "broken UNKNOWN HTTP 500 Internal Server Error\nnobody DOWN connection refused: nothing listens there\n" +
		"stranger UNKNOWN that is no page of an engine that is known\nwell OK "
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("pods:\n%s\nwant:\n%s", text, want)
	}
	if s.Windows[0].Decisions != 7 || s.Pods[3].Picks[0] != 7 || *s.Pods[3].Queue.Waiting != 4 {
		t.Errorf("%+v, %+v", s.Windows[0], s.Pods[3])
	}
	if p.Server() != strings.TrimSuffix(picker, "/metrics") {
		t.Errorf("server %q", p.Server())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := p.Look(ctx); s != nil || err == nil {
		t.Errorf("after its end: %v, %v", s, err)
	}
}

// The token goes to pickers, and to no engine.
func TestTokenGoesToPickersAlone(t *testing.T) {
	var toPicker, toEngine atomic.Value
	picker := serve(t, func(w http.ResponseWriter) { _, _ = io.WriteString(w, llmd(nil, nil)) }, &toPicker)
	engine := serve(t, func(w http.ResponseWriter) { _, _ = io.WriteString(w, vllm(0, 1)) }, &toEngine)
	p := New(Config{Clock: clock.Wall{}, Token: "word", Pages: Pages{Pickers: []string{picker}, Engines: []Engine{{"", engine}}}})
	defer p.Close()
	if _, err := p.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if toPicker.Load() != "Bearer word" || toEngine.Load() != "" {
		t.Errorf("the picker got %q, the engine %q", toPicker.Load(), toEngine.Load())
	}
}

// An engine's page in the place of the picker's is named as such.
func TestWrongPages(t *testing.T) {
	var token atomic.Value
	for text, want := range map[string]string{vllm(0, 1): "that is an engine's page", "up 1\n": "no page of a picker"} {
		url := serve(t, func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }, &token)
		p := New(Config{Clock: clock.Wall{}, Pages: Pages{Pickers: []string{url}}})
		s, err := p.Look(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || s.Verdict.Code != explain.VerdictUnreachable {
			t.Errorf("%v, want %q; verdict %+v", err, want, s.Verdict)
		}
		p.Close()
	}
}

func TestParseEngine(t *testing.T) {
	for text, want := range map[string]Engine{
		"10.0.0.7:8000":               {"", "http://10.0.0.7:8000/metrics"},
		"vllm-0=10.0.0.7:8000":        {"vllm-0", "http://10.0.0.7:8000/metrics"},
		" a = https://b/x ":           {"a", "https://b/x"},
		"http://10.0.0.7:8000/m?a=b":  {"", "http://10.0.0.7:8000/m?a=b"},
		"a=http://10.0.0.7:8000/?b=c": {"a", "http://10.0.0.7:8000/metrics?b=c"},
	} {
		if got, err := ParseEngine(text); got != want || err != nil {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "=10.0.0.7:8000", "a=", "ftp://a", "http://u:p@a"} {
		if got, err := ParseEngine(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// turned is a clock that a test turns.
type turned struct {
	clock.Wall
	now time.Time
}

func (c *turned) Now() time.Time { return c.now }

// The pages are found anew as pods come and go; what is gone is not looked at any more,
// and what stays keeps its past.
func TestPagesAreFoundAnew(t *testing.T) {
	var picks atomic.Int64
	var token atomic.Value
	engine := serve(t, func(w http.ResponseWriter) { _, _ = io.WriteString(w, vllm(4, 1)) }, &token)
	picker := serve(t, func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, llmd(map[string]int{"old": int(picks.Add(5))}, map[string]int{"stays": 0}))
	}, &token)
	hand := &turned{now: noon}
	found := Pages{Pickers: []string{picker}, Engines: []Engine{{"old", engine}, {"stays", engine}}}
	var lost error
	asked := 0
	p := New(Config{Clock: hand, Pages: found, Find: func(context.Context) (Pages, error) {
		asked++
		return found, lost
	}})
	defer p.Close()
	look := func(after time.Duration) *explain.Snapshot {
		t.Helper()
		hand.now = hand.now.Add(after)
		s, err := p.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	names := func(s *explain.Snapshot) (names []string) {
		for i := range s.Pods {
			if s.Pods[i].Endpoint != "" {
				names = append(names, s.Pods[i].Pod)
			}
		}
		return names
	}
	look(0)
	found = Pages{Pickers: []string{picker}, Engines: []Engine{{"new", engine}, {"stays", engine}}, Left: 3}
	if s := look(findEvery - time.Second); asked != 0 || strings.Join(names(s), " ") != "old stays" {
		t.Errorf("asked %d times before its time, pods %q", asked, names(s))
	}
	s := look(time.Second)
	if asked != 1 || strings.Join(names(s), " ") != "new stays" || len(s.Windows) == 0 || s.Windows[1].Decisions != 10 {
		t.Errorf("asked %d times, pods %q, windows %+v", asked, names(s), s.Windows)
	}
	if missing := strings.Join(s.Missing, "\n"); !strings.Contains(missing, "figures of 3 engines above 2: too many") {
		t.Errorf("missing %q", missing)
	}
	lost = errors.New("the API server does not answer")
	if s = look(findEvery); strings.Join(names(s), " ") != "new stays" || !strings.Contains(strings.Join(s.Missing, "\n"), "which pods there are now: the API server does not answer") {
		t.Errorf("pods %q, missing %q", names(s), s.Missing)
	}
	lost = nil
	if s = look(findEvery); strings.Contains(strings.Join(s.Missing, "\n"), "which pods there are now") || asked != 3 {
		t.Errorf("asked %d times, missing %q", asked, s.Missing)
	}
}
