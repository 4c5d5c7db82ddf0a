package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

func TestWatchFollowsPods(t *testing.T) {
	for _, lists := range []bool{true, false} {
		t.Run(fmt.Sprintf("unable to stream lists %t", lists), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				f.Lists = lists
				followPods(t, f)
			})
		})
	}
}

func followPods(t *testing.T, f *kubetest.Server) {
	f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
	f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
	f.Put(kubetest.Pods, kubetest.Pod("x", "other", "10.0.0.9"))
	w := watchPools(t, f, "chat")
	w.endpoints("a@10.0.0.1:8000")
	f.Put(kubetest.Pods, kubetest.Pod("b", "vllm", "fd00::2"))
	w.endpoints("a@10.0.0.1:8000", "b@[fd00::2]:8000")
	f.Put(kubetest.Pods, kubetest.Pod("b", "vllm", "fd00::2", kubetest.NotReady))
	w.endpoints("a@10.0.0.1:8000", "b@[fd00::2]:8000 not ready")
	f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1", kubetest.Terminating))
	w.endpoints("a@10.0.0.1:8000 terminating", "b@[fd00::2]:8000 not ready")
	f.Drop(kubetest.Pods, "a")
	w.endpoints("b@[fd00::2]:8000 not ready")
	if s := w.state(); s.Pools[0].Pods != 1 || s.Pools[0].Ready != 0 {
		t.Errorf("%d pods, %d ready, want 1 and 0", s.Pools[0].Pods, s.Pools[0].Ready)
	}
}

func TestWatchFollowsThePool(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
		f.Put(kubetest.Pods, kubetest.Pod("b", "sglang", "10.0.0.2"))
		f.Install(kubetest.Pools)
		w := watchPools(t, f, "chat")
		w.await("all read", func(*State) bool { return f.Requests(kubetest.OldPools) > 0 })
		if s := w.state(); s.Synced {
			t.Fatal("synced, and there is no pool")
		}
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
		w.endpoints("a@10.0.0.1:8000")
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000, 8001))
		w.endpoints("a@10.0.0.1:8000", "a@10.0.0.1:8001")
		f.Put(kubetest.Pools, kubetest.Pool("chat", "sglang", 8000))
		w.endpoints("b@10.0.0.2:8000")
		f.Drop(kubetest.Pools, "chat")
		w.endpoints()
		if s := w.state(); s.Pools[0].Pool != nil {
			t.Error("a pool that was deleted is there")
		}
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
		w.endpoints("a@10.0.0.1:8000")
	})
}

// Between two selectors the pods that were known count, as far as the new one means
// them too.
func TestWatchKeepsNoPodThatANewSelectorLeavesOut(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
		f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1", kubetest.Labelled("tier", "gold")))
		f.Put(kubetest.Pods, kubetest.Pod("b", "vllm", "10.0.0.2"))
		w := watchPools(t, f, "chat")
		w.endpoints("a@10.0.0.1:8000", "b@10.0.0.2:8000")
		f.Refuse(kubetest.Pods, 503)
		narrow := kubetest.Pool("chat", "vllm", 8000)
		narrow["spec"].(kubetest.Doc)["selector"] = kubetest.Doc{"matchLabels": map[string]string{"app": "vllm", "tier": "gold"}}
		f.Put(kubetest.Pools, narrow)
		w.endpoints("a@10.0.0.1:8000")
		f.Refuse(kubetest.Pods, 0)
		f.Put(kubetest.Pods, kubetest.Pod("c", "vllm", "10.0.0.3", kubetest.Labelled("tier", "gold")))
		w.endpoints("a@10.0.0.1:8000", "c@10.0.0.3:8000")
	})
}

func TestWatchReadsTheOlderPool(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		f.Put(kubetest.OldPools, kubetest.OldPool("chat", "vllm", 8000))
		f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
		w := watchPools(t, f, "chat") // v1 is not installed
		w.endpoints("a@10.0.0.1:8000")
		if p := w.state().Pools[0].Pool; p.APIVersion != InferenceX.String() {
			t.Errorf("the pool is of %s", p.APIVersion)
		}
	})
}

func TestWatchPrefersV1(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
		f.Put(kubetest.OldPools, kubetest.OldPool("chat", "vllm", 9999))
		f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
		w := watchPools(t, f, "chat")
		w.endpoints("a@10.0.0.1:8000")
		if n := f.Requests(kubetest.OldPools); n != 0 {
			t.Errorf("v1alpha2 was asked %d times for a pool of v1", n)
		}
	})
}

func TestWatchOutages(t *testing.T) {
	outage := func(name string, test func(t *testing.T, f *kubetest.Server, w *watched)) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
				f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
				w := watchPools(t, f, "chat")
				w.endpoints("a@10.0.0.1:8000")
				test(t, f, w)
			})
		})
	}
	back := func(f *kubetest.Server, w *watched) {
		w.t.Helper()
		f.Put(kubetest.Pods, kubetest.Pod("b", "vllm", "10.0.0.2"))
		w.endpoints("a@10.0.0.1:8000", "b@10.0.0.2:8000")
		w.await("no problem", func(*State) bool { p, _ := w.Problems(); return len(p) == 0 })
	}
	outage("connections that end", func(_ *testing.T, f *kubetest.Server, w *watched) {
		f.Cut()
		back(f, w)
	})
	outage("versions that expire", func(_ *testing.T, f *kubetest.Server, w *watched) {
		f.Forget()
		f.Drop(kubetest.Pods, "a")
		w.endpoints()
	})
	outage("a server that is away", func(t *testing.T, f *kubetest.Server, w *watched) {
		f.Refuse("*", 503)
		w.says("the last known pods stand")
		w.endpoints("a@10.0.0.1:8000")
		if _, failures := w.Problems(); failures == 0 {
			t.Error("no failure was counted")
		}
		f.Refuse("*", 0)
		back(f, w)
		w.says("news from the API server again")
	})
	outage("rights that are taken away", func(_ *testing.T, f *kubetest.Server, w *watched) {
		f.Refuse("*", 403)
		w.says(`may not list pods in namespace \"serving\": give its ServiceAccount the Role of 'eppctl manifests'`)
		w.says("inferencepools.inference.networking.k8s.io")
		w.endpoints("a@10.0.0.1:8000")
		f.Refuse("*", 0)
		back(f, w)
	})
	outage("a token that is not known", func(_ *testing.T, f *kubetest.Server, w *watched) {
		f.Refuse("*", 401)
		w.says("does not accept who asks (401)")
		w.endpoints("a@10.0.0.1:8000")
	})
	outage("types that are unknown for a moment", func(_ *testing.T, f *kubetest.Server, w *watched) {
		f.Refuse(kubetest.Pools, 404)
		w.await("asked again", func(*State) bool { return f.Requests(kubetest.Pools) > 2 })
		w.endpoints("a@10.0.0.1:8000")
		f.Refuse(kubetest.Pools, 0)
		back(f, w)
	})
}

func TestWatchWithoutRights(t *testing.T) {
	for _, c := range []struct {
		name, refused, says string
		synced              bool
	}{
		{"pods", kubetest.Pods, `may not list pods in namespace \"serving\"`, false},
		{"models", kubetest.Models, "may not list inferencemodels.inference.networking.x-k8s.io in namespace", true},
		{"rewrites", kubetest.Rewrites, "may not list inferencemodelrewrites.llm-d.ai in namespace", true},
		{"pool", kubetest.Pools, "may not list inferencepools.inference.networking.k8s.io in namespace", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *kubetest.Server) {
				f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
				f.Put(kubetest.Pods, kubetest.Pod("a", "vllm", "10.0.0.1"))
				f.Refuse(c.refused, 403)
				w := watchPools(t, f, "chat")
				w.says(c.says)
				if c.synced {
					w.endpoints("a@10.0.0.1:8000")
				} else if w.state().Synced {
					t.Error("synced without what is needed")
				}
				if problems, _ := w.Problems(); len(problems) != 1 || !problems[0].Forbidden {
					t.Errorf("problems: %+v", problems)
				}
			})
		})
	}
}

func TestWatchReadsModels(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
		f.Put(kubetest.Models, kubetest.Model("b", "food-review", "chat"))
		f.Put(kubetest.Models, kubetest.Model("a", "llama", "other"))
		w := watchPools(t, f, "chat")
		names := func(s *State) string {
			var names []string
			for _, m := range s.Models {
				names = append(names, m.Name+"="+m.Spec.ModelName+" "+m.APIVersion)
			}
			return strings.Join(names, ", ")
		}
		w.await("both", func(s *State) bool {
			return s.Synced && names(s) == "a=llama inference.networking.x-k8s.io/v1alpha2, b=food-review inference.networking.x-k8s.io/v1alpha2"
		})
		f.Drop(kubetest.Models, "a")
		w.await("one", func(s *State) bool { return len(s.Models) == 1 })
	})
}

func TestWatchReadsSettings(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		pool := kubetest.Pool("chat", "vllm", 8000)
		kubetest.Meta(pool)["annotations"] = map[string]string{"eppctl.dev/config": "first"}
		f.Put(kubetest.Pools, pool)
		f.Put(kubetest.ConfigMaps, kubetest.ConfigMap("first", "maxQueue: 1"))
		f.Put(kubetest.ConfigMaps, kubetest.ConfigMap("second", "maxQueue: 2"))
		named := func(name, text string) func(*State) bool {
			return func(s *State) bool {
				return s.Synced && s.SettingsKnown && s.Settings == SettingsMap{Name{"serving", name}, text != "", text}
			}
		}
		w := watchPools(t, f, "chat")
		w.await("the pool's", named("first", "maxQueue: 1"))
		f.Put(kubetest.ConfigMaps, kubetest.ConfigMap("first", "maxQueue: 3"))
		w.await("a change", named("first", "maxQueue: 3"))
		f.Drop(kubetest.ConfigMaps, "first")
		w.await("gone", named("first", ""))
		pool = kubetest.Pool("chat", "vllm", 8000)
		kubetest.Meta(pool)["annotations"] = map[string]string{"eppctl.dev/config": "second"}
		f.Put(kubetest.Pools, pool)
		w.await("another", named("second", "maxQueue: 2"))
		flagged := watchAs(t, f, WatchConfig{Pools: []Name{{"serving", "chat"}}, Settings: Name{"serving", "first"}})
		flagged.await("the flag's", named("first", ""))
	})
}

// What is not installed is looked for again, after a pause that differs by picker.
func TestWatchFindsWhatIsInstalledLater(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
		w := watchPools(t, f, "chat")
		w.await("it is known that there are none", func(s *State) bool { return s.Synced })
		time.Sleep(absentDelay/2 - time.Second)
		first := f.Requests(kubetest.Models)
		f.Put(kubetest.Models, kubetest.Model("a", "llama", "chat"))
		time.Sleep(absentDelay/2 + time.Second)
		if s := w.state(); len(s.Models) != 1 {
			t.Errorf("after %s there are %d models, want 1", absentDelay, len(s.Models))
		}
		asked := f.Asked(kubetest.Models)
		if pause := asked[first].Sub(asked[first-1]); pause < absentDelay/2 || pause >= absentDelay {
			t.Errorf("looked for again after %s, want %s to %s", pause, absentDelay/2, absentDelay)
		}
	})
}

// A burst of changes is one update.
func TestWatchGathersABurst(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		const pods = 200
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
		w := watchPools(t, f, "chat")
		w.await("synced", func(s *State) bool { return s.Synced })
		w.mu.Lock()
		before := w.updates
		w.mu.Unlock()
		for i := range pods {
			f.Put(kubetest.Pods, kubetest.Pod(fmt.Sprint("p", i), "vllm", fmt.Sprintf("10.0.0.%d", i)))
		}
		w.await("all", func(s *State) bool { return len(s.Members) == pods })
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := w.updates - before; n > 2 {
			t.Errorf("%d updates for %d changes", n, pods)
		}
	})
}
