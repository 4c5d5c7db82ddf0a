package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
	"github.com/eppctl/eppctl/internal/logtest"
)

// What answers need not be an API server that is well. What was known stands, it is
// said once, and it is over when the server is well again.
func TestWatchOfOddServers(t *testing.T) {
	const typeJSON, typeHTML = "application/json", "text/html"
	say := func(w http.ResponseWriter, kind, text string) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text)
	}
	watches := func(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }
	type odd struct {
		name   string
		answer func(http.ResponseWriter, *http.Request) bool
		says   string
	}
	for _, c := range []odd{
		{"a page to log in", func(w http.ResponseWriter, _ *http.Request) bool {
			say(w, typeHTML, "<html>who are you?</html>")
			return true
		}, "text/html"},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) bool {
			say(w, typeJSON, `{"kind":"PodList","apiVersion":"v1","items":[{"meta`)
			return true
		}, "unexpected end of JSON"},
		{"lists of something else", func(w http.ResponseWriter, r *http.Request) bool {
			if watches(r) {
				say(w, typeHTML, "")
				return true
			}
			say(w, typeJSON, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"n"}}]}`)
			return true
		}, "got a *v1.Node"},
		{"watches of something else", func(w http.ResponseWriter, r *http.Request) bool {
			if watches(r) {
				say(w, typeJSON, `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"9999"}}}`)
			}
			return watches(r)
		}, "each watch ends at once"},
		{"connections that end", func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, "EOF"},
		{"watches that are cut", func(_ http.ResponseWriter, r *http.Request) bool {
			if watches(r) {
				panic(http.ErrAbortHandler)
			}
			return false
		}, "before it answered"},
		{"more requests than it takes", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}, "too many requests"},
		{"lists and no watches", func(w http.ResponseWriter, r *http.Request) bool {
			if watches(r) {
				w.Header().Set("Content-Type", typeJSON)
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden"}`)
			}
			return watches(r)
		}, "may not watch pods in namespace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
				f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
				w := watchPools(t, f, "chat")
				w.endpoints("a@10.0.0.1:8000")
				f.Instead(c.answer)
				w.says(`what="pods in`)
				w.says(c.says)
				time.Sleep(firstPause / 2)
				if n := strings.Count(w.log.String(), `what="pods in`); n != 1 {
					t.Errorf("said %d times:\n%s", n, w.log.String())
				}
				from := len(f.Asked(kubetest.Pods))
				time.Sleep(5 * time.Minute)
				w.endpoints("a@10.0.0.1:8000")
				checkPauses(t, f.Asked(kubetest.Pods)[from:])
				f.Instead(nil)
				f.Put(kubetest.Pods, kubetest.Pod("b", "vllm", "10.0.0.2"))
				w.endpoints("a@10.0.0.1:8000", "b@10.0.0.2:8000")
				w.await("no problem", func(*State) bool { p, _ := w.Problems(); return len(p) == 0 })
			})
		})
	}
}

// checkPauses looks at when a server was asked that is odd for long. Each time it is
// asked in three ways, and by two layers once more where that may help.
func checkPauses(t *testing.T, asked []time.Time) {
	t.Helper()
	times := 1
	for i := 1; i < len(asked); i++ {
		pause := asked[i].Sub(asked[i-1])
		switch {
		case pause <= time.Second:
			continue
		case pause < lastDelay/2 || pause >= lastDelay:
			t.Errorf("a pause of %s, want %s to %s", pause, lastDelay/2, lastDelay)
		}
		times++
	}
	if most := int(5*time.Minute/(lastDelay/2)) + 1; times < 25 || times > most || len(asked) > 8*times {
		t.Errorf("asked %d times, in %d requests; want 25 to %d, and at most 8 requests for each", times, len(asked), most)
	}
}

// A server that says at two starts that it does not know a resource has not said so
// for all the time between.
func TestAResourceIsGoneWhenThatIsSaidForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unknown := apierrors.NewNotFound(schema.GroupResource{Resource: "inferencepools"}, "")
		w := (&Cluster{config: clusterOf(&kubetest.Server{}).config}).Watch(WatchConfig{Logger: slog.New(slog.DiscardHandler)})
		f := poolFeed(w, Name{"serving", "chat"})
		f.read = true
		f.failed(t.Context(), "list", unknown)
		f.failed(t.Context(), "list", errors.New("connection refused"))
		time.Sleep(time.Minute)
		f.failed(t.Context(), "list", unknown)
		if f.isAbsent() {
			t.Error("gone, and it was but a moment")
		}
		time.Sleep(lostFor)
		f.failed(t.Context(), "list", unknown)
		if !f.isAbsent() {
			t.Error("there, and it was gone all the time")
		}
	})
}

// silent is a server that takes requests and does nothing else, or sends a head first.
type silent struct{ head bool }

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.head {
		return &http.Response{StatusCode: http.StatusOK, Body: silentBody{r.Context()}}, nil
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

type silentBody struct{ ctx context.Context }

func (b silentBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func (silentBody) Close() error { return nil }

func TestSilentServersAreLeft(t *testing.T) {
	for _, c := range []struct {
		name, query string
		server      silent
		after       time.Duration
	}{
		{"no answer", "watch=1", silent{}, time.Minute},
		{"no list in a stream", "watch=1&sendInitialEvents=true", silent{head: true}, time.Minute},
		{"nothing new", "watch=1", silent{head: true}, 11 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api/pods?"+c.query, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				resp, err := listener{c.server, new(Watch)}.RoundTrip(r)
				if c.server.head == (err != nil) {
					t.Fatalf("error %v", err)
				}
				if err == nil {
					_, err = resp.Body.Read(make([]byte, 1))
					resp.Body.Close()
				}
				if took := time.Since(began); err == nil || took != c.after {
					t.Errorf("error %v after %s, want one after %s", err, took, c.after)
				}
			})
		})
	}
}

// A watch that was stopped before it was steady does not become so by the last of what
// it told.
func TestAStoppedWatchIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		f := &feed[string]{
			source:  source{gv: corev1.SchemeGroupVersion, resource: "pods", namespace: "serving"},
			trouble: &trouble{log: slog.New(slog.NewTextHandler(&log, nil)), changed: func() {}, problems: map[string]*ongoing{}},
		}
		f.trouble.add(f.String(), "the API server is away", false)
		raw := watch.NewFake()
		w := f.checked(t.Context(), raw, metav1.ListOptions{SendInitialEvents: new(true)})
		if !f.watchEnded() {
			t.Error("a watch that has told nothing was steady")
		}
		last := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
		go raw.Action(watch.Bookmark, last)
		if e := <-w.ResultChan(); e.Type != watch.Bookmark {
			t.Errorf("event %v", e)
		}
		time.Sleep(2 * lastSteady)
		w.Stop()
		if problems, _ := f.trouble.list(); f.flaps.Load() != 1 || len(problems) != 1 {
			t.Errorf("%d watches were not steady and %d problems last, want one of each\n%s", f.flaps.Load(), len(problems), log.String())
		}
	})
}

// The API server has selected the pods: of their labels not all are kept.
func TestPodsWithManyLabels(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
		var many []kubetest.Edit
		for i := range 2 * maxLabels {
			many = append(many, kubetest.Labelled(fmt.Sprintf("a%03d", i), "x"))
		}
		f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1", many...))
		w := watchPools(t, f, "chat")
		w.endpoints("a@10.0.0.1:8000")
		if n := len(w.state().Members[0].Labels); n != maxLabels {
			t.Errorf("%d labels are kept", n)
		}
	})
}

// Who owns the pool can't keep its picker from starting.
func TestSettingsThatCanNotBe(t *testing.T) {
	for _, name := range []string{"other/settings", "..", "100%", "Upper", strings.Repeat("x", 100_000)} {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				pool := kubetest.Pool("chat", "vllm", 8000)
				kubetest.Meta(pool)["annotations"] = map[string]string{"eppctl.dev/config": name}
				f.Put(kubetest.Pools, pool)
				m, err := clusterOf(f).ReadSettings(t.Context(), Name{}, Name{"serving", "chat"})
				if err != nil || m.Found || m.Name == (Name{}) || len(m.Name.Name) > 300 {
					t.Errorf("got %+v, %v", m, err)
				}
				w := watchPools(t, f, "chat")
				w.await("known not to be", func(s *State) bool { return s.Synced && s.SettingsKnown && s.Settings == m })
				if n := f.Requests(kubetest.ConfigMaps); n > 0 {
					t.Errorf("asked for %d times", n)
				}
			})
		})
	}
}
