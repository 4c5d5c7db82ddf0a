package kube

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

// What is wrong is said at once, then more and more seldom, and when it is over.
func TestTroubleIsSaidMoreAndMoreSeldom(t *testing.T) {
	for _, c := range []struct {
		name    string
		lasting bool
		want    int
	}{
		{"an API server that is away for a day", false, 1 + 6 + 23}, // 0, 1, 3, 7, 15, 31 and 63 minutes, then each hour
		{"a right that is missing for a day", true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				changes := 0
				tr := &trouble{log: slog.New(slog.NewTextHandler(&log, nil)), changed: func() { changes++ }, problems: map[string]*ongoing{}}
				for range 24 * 60 * 6 {
					tr.add("pods", "connection refused", c.lasting)
					time.Sleep(10 * time.Second)
				}
				if said := strings.Count(log.String(), "no news"); said < c.want-2 || said > c.want+2 {
					t.Errorf("said %d times, want about %d", said, c.want)
				}
				problems, failures := tr.list()
				if len(problems) != 1 || problems[0].Forbidden != c.lasting || failures != 24*60*6 {
					t.Errorf("%+v, %d failures", problems, failures)
				}
				tr.over("pods")
				tr.over("pods")
				if problems, _ := tr.list(); len(problems) != 0 || strings.Count(log.String(), "again") != 1 || changes != 2 {
					t.Errorf("%+v is left, %d changes", problems, changes)
				}
			})
		})
	}
}

// An API server that has just started refuses what it grants a moment later: that is
// nobody's mistake, and is not said.
func TestARightThatIsMissingForAMomentIsNotSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		tr := &trouble{log: slog.New(slog.NewTextHandler(&log, nil)), changed: func() {}, problems: map[string]*ongoing{}}
		for range 4 {
			tr.add("pods", "may not watch", true)
			time.Sleep(500 * time.Millisecond)
		}
		if problems, _ := tr.list(); len(problems) != 1 || problems[0].Forbidden {
			t.Errorf("%+v, want a problem that is not yet one of rights", problems)
		}
		tr.over("pods")
		if log.Len() > 0 {
			t.Errorf("said: %s", log.String())
		}
		for range 10 {
			tr.add("pods", "may not watch", true)
			time.Sleep(500 * time.Millisecond)
		}
		if n := strings.Count(log.String(), "may not watch"); n != 1 {
			t.Errorf("said %d times, want once: %s", n, log.String())
		}
		if problems, _ := tr.list(); !problems[0].Forbidden {
			t.Error("it has lasted, and is not yet a problem of rights")
		}
	})
}

// That nobody looks any more is no news.
func TestTroubleWithWhatIsLookedAtNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		f.Put(kubetest.Pools, kubetest.Pool("chat", "vllm", 8000))
		w := watchPools(t, f, "chat")
		w.endpoints()
		f.Refuse(kubetest.Pods, 500)
		w.says("no news from the API server")
		f.Drop(kubetest.Pools, "chat")
		w.await("no problem", func(*State) bool { problems, _ := w.Problems(); return len(problems) == 0 })
		if strings.Contains(w.log.String(), "again") {
			t.Errorf("the log: %s", w.log.String())
		}
	})
}
