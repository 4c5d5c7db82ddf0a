package kube

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

// endless is a body without an end; it ends with its reader.
func endless(w io.Writer, head, again string) {
	_, err := io.WriteString(w, head)
	for part := strings.Repeat(again, 64<<10/len(again)); err == nil; {
		_, err = io.WriteString(w, part)
	}
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// Answers without an end are not read to it. It is told what was too large, and what was
// known stands.
func TestAnswersWithoutAnEnd(t *testing.T) {
	const pod = `{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"9","annotations":{"x":"`
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		says   string
	}{
		{"a page of a list", func(w http.ResponseWriter, r *http.Request) {
			if isWatch(r) {
				w.WriteHeader(http.StatusUnprocessableEntity) // it can't stream lists
				return
			}
			endless(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","x":"`, "x")
		}, "the answer to GET /api/v1/namespaces/serving/pods is larger than 32 MiB"},
		{"a page of a list that was packed", func(w http.ResponseWriter, r *http.Request) {
			if isWatch(r) {
				w.WriteHeader(http.StatusUnprocessableEntity)
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			endless(gzip.NewWriter(w), `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","x":"`, "x")
		}, "the answer to GET /api/v1/namespaces/serving/pods is larger than 32 MiB"},
		{"an object of a watch", func(w http.ResponseWriter, r *http.Request) {
			if !isWatch(r) {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			endless(w, pod, `\"{`)
		}, "an event of the watch GET /api/v1/namespaces/serving/pods is larger than 4 MiB"},
		{"nothing in a watch", func(w http.ResponseWriter, r *http.Request) {
			if !isWatch(r) {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			endless(w, "", "\n")
		}, "an event of the watch GET /api/v1/namespaces/serving/pods is larger than 4 MiB"},
		{"a refusal", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			endless(w, `{"kind":"Status","apiVersion":"v1","code":403,"reason":"Forbidden","message":"`, "no! ")
		}, `may not list pods in namespace \"serving\"`},
		{"an error", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusInternalServerError)
			endless(w, "", "sorry ")
		}, "sorry sorry"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
				f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
				w := watchPools(t, f, "chat")
				w.endpoints("a@10.0.0.1:8000")
				f.Instead(func(rw http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != kubetest.Pods {
						return false
					}
					rw.Header().Set("Content-Type", "application/json")
					c.answer(rw, r)
					return true
				})
				w.says(c.says)
				w.endpoints("a@10.0.0.1:8000")
				problems, _ := w.Problems()
				if len(problems) != 1 || len(problems[0].Reason) > 2*maxReason {
					t.Errorf("problems: %.3000v", problems)
				}
				if n := len(w.log.String()); n > 16<<10 {
					t.Errorf("the log has %d bytes", n)
				}
				f.Instead(nil)
				w.await("no problem", func(*State) bool { p, _ := w.Problems(); return len(p) == 0 })
			})
		})
	}
}

// A ConfigMap that is too large is an error at the start, and no news later.
func TestSettingsWithoutAnEnd(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		conf := Name{"serving", "conf"}
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
		f.Put(kubetest.ConfigMaps, kubetest.ConfigMap("conf", "maxQueue: 1"))
		w := watchAs(t, f, WatchConfig{Pools: []Name{{"serving", "chat"}}, Settings: conf})
		w.await("the settings", func(s *State) bool { return s.Settings.YAML == "maxQueue: 1" })
		f.Instead(func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, kubetest.ConfigMaps) {
				return false
			}
			rw.Header().Set("Content-Type", "application/json")
			endless(rw, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"conf"},"data":{"eppctl.yaml":"`, "#")
			return true
		})
		_, err := clusterOf(f).ReadSettings(t.Context(), conf, Name{})
		if err == nil || !strings.Contains(err.Error(), "ConfigMap serving/conf: ") || !strings.Contains(err.Error(), "is larger than") {
			t.Errorf("error %v", err)
		}
		w.says("an event of the watch GET /api/v1/namespaces/serving/configmaps is larger than 4 MiB")
		if s := w.state(); s.Settings.YAML != "maxQueue: 1" {
			t.Errorf("the settings are %.80v", s.Settings)
		}
	})
}

// Ten thousand pods come in pages, or in a stream, and are all there.
func TestManyPods(t *testing.T) {
	pods := 10_000
	if testing.Short() {
		pods = 1000
	}
	for _, lists := range []bool{false, true} {
		t.Run(fmt.Sprintf("unable to stream lists %t", lists), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				f.Lists = lists
				f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
				for i := range pods {
					f.Put(kubetest.Pods, kubetest.Pod(fmt.Sprintf("p%05d", i), "vllm", fmt.Sprintf("10.0.%d.%d", i/250, i%250)))
				}
				w := watchPools(t, f, "chat")
				w.await("all", func(s *State) bool { return s.Synced && len(s.Members) == pods })
				if n := f.Requests(kubetest.Pods); lists && n < pods/pageSize {
					t.Errorf("asked %d times, want a page of %d at once", n, pageSize)
				}
				f.Put(kubetest.Pods, kubetest.Pod("new", "vllm", "10.1.0.1"))
				w.await("one more", func(s *State) bool { return len(s.Members) == pods+1 })
				if w.log.String() != "" {
					t.Errorf("it says %s", w.log.String())
				}
			})
		})
	}
}

// A server can't ask to be left alone for long: until then nobody would know why
// nothing comes.
func TestRetryAfterIsBounded(t *testing.T) {
	for _, verb := range []string{"list", "watch"} {
		t.Run(verb, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
				f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
				w := watchPools(t, f, "chat")
				w.endpoints("a@10.0.0.1:8000")
				f.Instead(func(rw http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != kubetest.Pods || verb == "watch" && !isWatch(r) {
						return false
					}
					rw.Header().Set("Retry-After", "86400")
					rw.WriteHeader(http.StatusServiceUnavailable)
					return true
				})
				w.says(`what="pods in`)
				from := f.Requests(kubetest.Pods)
				time.Sleep(10 * time.Minute)
				if n := f.Requests(kubetest.Pods) - from; n < 10 || n > 300 {
					t.Errorf("asked %d times in ten minutes", n)
				}
				w.endpoints("a@10.0.0.1:8000")
				f.Instead(nil)
				f.Put(kubetest.Pods, kubetest.Pod("b", "vllm", "10.0.0.2"))
				w.endpoints("a@10.0.0.1:8000", "b@10.0.0.2:8000")
			})
		})
	}
}

// Events are measured one by one, however they are cut into reads.
func TestSizesOfEvents(t *testing.T) {
	frame := func(n int) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(n))) + strings.Repeat("x", min(n, 100))
	}
	for _, c := range []struct {
		name, kind, body string
		want             int
	}{
		{"values", "application/json", `{"a":1}{"a":[1,2]}` + "\n" + `{}`, 11},
		{"quoted brackets", "application/json", `{"a":"}}\"}{"}`, 14},
		{"a value that does not end", "application/json", `{"a":{"b":"` + strings.Repeat("}", 50), 61},
		{"closing brackets alone", "application/json", strings.Repeat("}", 50), 1},
		{"frames", "application/vnd.kubernetes.protobuf;stream=watch", frame(3) + frame(20) + frame(0) + frame(7), 20},
		{"a frame that does not end", "application/vnd.kubernetes.protobuf;stream=watch", frame(3) + frame(1<<31), 1 << 31},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, cut := range []int{1, 2, 3, 7, len(c.body)} {
				s, most := sizerOf(c.kind), 0
				for rest := c.body; rest != ""; {
					n := min(cut, len(rest))
					most, rest = max(most, s.longest([]byte(rest[:n]))), rest[n:]
				}
				if most != c.want {
					t.Errorf("in parts of %d bytes: %d, want %d", cut, most, c.want)
				}
			}
		})
	}
}

// What commands list comes in pages too.
func TestCommandsListInPages(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		const many = 2*pageSize + 1
		for i := range many {
			f.Put(kubetest.Pools, kubetest.Pool(fmt.Sprint("chat-", i), "vllm", 8000))
			f.Put(kubetest.Pods, kubetest.Pod(fmt.Sprint("p", i), "vllm", "10.0.0.1"))
		}
		c := clusterOf(f)
		pools, err := c.Pools(t.Context(), "serving", "")
		if n := f.Requests(kubetest.Pools); err != nil || len(pools) != many || n != 3 {
			t.Errorf("%d pools by %d requests, %v", len(pools), n, err)
		}
		pods, err := c.PoolPods(t.Context(), pools[0])
		if n := f.Requests(kubetest.Pods); err != nil || len(pods) != many || n != 3 {
			t.Errorf("%d pods by %d requests, %v", len(pods), n, err)
		}
		f.Instead(func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprint(rw, `{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"more"}}`)
			return true
		})
		if _, err := c.PoolPods(t.Context(), pools[0]); err == nil || !strings.Contains(err.Error(), "has no end") {
			t.Errorf("error %v", err)
		}
	})
}
