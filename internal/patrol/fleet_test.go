package patrol

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
)

// Snapshots of captured pages, of all makers: one look each, and two where there are
// two pages of one process.
func TestCapturedPages(t *testing.T) {
	engines := []Engine{{URL: "http://127.0.0.1:8001/metrics"}, {Name: "vllm-sim-2", URL: "http://10.0.0.9:8000/metrics"}}
	for _, tc := range []struct {
		name    string
		picker  []string // its pages, 2 s apart
		engines [2][]string
	}{
		{"llmd-main", []string{"llmd-main"}, [2][]string{{"vllm-busy"}, {"vllm-lora-busy"}}},
		{"llmd-v0.9.0", []string{"llmd-v0.9.0"}, [2][]string{{"vllm-idle"}, {"vllm-dp2-busy"}}},
		{"eppctl-busy", []string{"eppctl-busy-1", "eppctl-busy-2"}, [2][]string{}},
		{"engines", nil, [2][]string{{"vllm-idle", "vllm-busy"}, {"vllm-dp2-busy", "vllm-dp2-busy"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var pickers []string
			if len(tc.picker) > 0 {
				pickers = []string{"http://10.0.0.1:9090/metrics"}
			}
			looks, list := max(len(tc.picker), len(tc.engines[0])), engines
			if tc.engines[0] == nil {
				list = nil
			}
			f := newFleet(Pages{Pickers: pickers, Engines: list})
			var s *explain.Snapshot
			for i := range looks {
				r := &round{at: noon.Add(time.Duration(i) * 2 * time.Second)}
				if len(pickers) > 0 {
					r.pickers = []answer{{page: captured(t, tc.picker[i], r.at)}}
				}
				for k := range list {
					r.engines = append(r.engines, answer{page: captured(t, tc.engines[k][i], r.at)})
				}
				var err error
				if s, err = f.see(r); err != nil {
					t.Fatal(err)
				}
			}
			got, err := json.MarshalIndent(s, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, "testdata/"+tc.name+".json", append(got, '\n'))
		})
	}
}

// Picks are what the counts grew by in each window, counted once although each stands
// on the page under two names; an older picker's restart takes nothing away.
func TestPicksOfWindows(t *testing.T) {
	st := newStory(t, 1, 0)
	queues := map[string]int{"a": 0, "b": 3}
	first := st.after(0, []string{llmd(map[string]int{"a": 1000, "b": 500}, queues)}, nil)
	if len(first.Windows) != 0 || first.Pods[0].Picks != nil || !slices.Contains(first.Missing, "rates: they need two looks") {
		t.Errorf("one look tells rates: %+v", first)
	}
	var s *explain.Snapshot
	for i := range 100 {
		n := i + 1
		s = st.after(time.Second, []string{llmd(map[string]int{"a": 1000 + 3*n, "b": 500 + n}, queues)}, nil)
	}
	for k, want := range [][3]int{{20, 15, 5}, {240, 180, 60}, {400, 300, 100}} {
		got := [3]int{s.Windows[k].Decisions, s.Pods[0].Picks[k], s.Pods[1].Picks[k]}
		if got != want {
			t.Errorf("window of %d s: %v, want %v", s.Windows[k].Seconds, got, want)
		}
	}
	if *s.Pods[0].PicksShare != .75 || *s.Pods[1].Queue.Waiting != 3 || s.Pods[0].State != explain.PodOK {
		t.Errorf("pods %+v", s.Pods)
	}
	if s = st.after(time.Second, []string{llmd(map[string]int{"a": 2, "b": 1}, queues)}, nil); s.Windows[0].Decisions != 3 {
		t.Errorf("%d decisions since the restart, want 3", s.Windows[0].Decisions)
	}
}

// Looks that are further apart than a window tell of it in proportion.
func TestRareLooks(t *testing.T) {
	st := newStory(t, 1, 0)
	st.after(0, []string{llmd(map[string]int{"a": 0}, nil)}, nil)
	s := st.after(time.Minute, []string{llmd(map[string]int{"a": 600}, nil)}, nil)
	if got := []int{s.Windows[0].Decisions, s.Windows[1].Decisions, s.Windows[2].Decisions}; !slices.Equal(got, []int{50, 600, 600}) {
		t.Errorf("decisions %v, want 10 a second", got)
	}
}

// One engine that fails is a state of its pod, and its figures stay until they are
// old; the others go on.
func TestAnEngineFails(t *testing.T) {
	st := newStory(t, 0, 2)
	well := vllm(1, 100)
	s := st.after(0, nil, []string{well, ""})
	if p := s.Pods[1]; p.State != explain.PodUnknown || p.Reason != errDown.Error() || p.Queue.Waiting != nil || p.AgeSeconds != nil {
		t.Errorf("a pod that never told: %+v", p)
	}
	if s.Verdict.Code != explain.VerdictStale || s.Verdict.Message != "pod-1 has told nothing yet" || st.err != nil {
		t.Errorf("verdict %+v, %v", s.Verdict, st.err)
	}
	st.after(time.Second, nil, []string{well, well})
	if s = st.after(4*time.Second, nil, []string{well, ""}); s.Pods[1].State != explain.PodOK || *s.Pods[1].AgeSeconds != 4 || *s.Pods[1].Queue.Waiting != 1 {
		t.Errorf("failing for 4 s: %+v", s.Pods[1])
	}
	s = st.after(2*time.Second, nil, []string{well, ""})
	if s.Pods[1].State != explain.PodStale || s.Verdict.Code != explain.VerdictStale || s.Verdict.Message != "pod-1 has told nothing for 6.0s" {
		t.Errorf("failing for 6 s: %+v, %+v", s.Pods[1], s.Verdict)
	}
	if s.Pods[0].State != explain.PodOK || *s.Pods[0].AgeSeconds != 0 {
		t.Errorf("the other pod: %+v", s.Pods[0])
	}
	s = st.after(10*time.Second, nil, []string{well, vllm(9, 200)})
	if s.Pods[1].State != explain.PodOK || *s.Pods[1].Queue.Waiting != 9 || s.Events[0].Code != explain.EventVerdict || s.Events[1].Code != explain.EventRestart {
		t.Errorf("back, and started anew: %+v, %+v", s.Pods[1], s.Events)
	}
	if st.after(time.Second, nil, []string{"", ""}); st.err == nil {
		t.Error("no engine answers, and nothing is wrong")
	}
}

// The picker does not answer: the verdict says so and since when, and picks are not
// known; the engines' pods keep their names.
func TestThePickerFails(t *testing.T) {
	st := newStory(t, 1, 1)
	st.fleet.engines[0].Name, st.fleet.names[0] = "", "10.0.0.0:8000" // joined by its port
	listed := llmd(map[string]int{"vllm-0": 5}, map[string]int{"vllm-0": 1})
	s := st.after(0, []string{listed}, []string{vllm(2, 1)})
	if len(s.Pods) != 1 || s.Pods[0].Pod != "vllm-0" || *s.Pods[0].Queue.Waiting != 2 || s.Pods[0].Endpoint != "10.0.0.0:8000" {
		t.Fatalf("pods %+v", s.Pods)
	}
	st.after(time.Second, []string{listed}, []string{vllm(2, 1)})
	s = st.after(time.Second, []string{""}, []string{vllm(3, 1)})
	if st.err == nil || s.Verdict.Code != explain.VerdictUnreachable || !s.Verdict.Since.Equal(st.now) || s.Pods[0].Pod != "vllm-0" || *s.Pods[0].Queue.Waiting != 3 {
		t.Errorf("%v, %+v, %+v", st.err, s.Verdict, s.Pods)
	}
	if s.PicksKnown() || s.Pods[0].Picks != nil {
		t.Errorf("picks of a picker that is silent: %+v", s.Pods[0])
	}
	since := st.now
	if s = st.after(time.Second, []string{""}, []string{vllm(3, 1)}); !s.Verdict.Since.Equal(since) {
		t.Errorf("silent since %v, want %v", s.Verdict.Since, since)
	}
	if s = st.after(time.Second, []string{listed}, []string{vllm(3, 1)}); st.err != nil || s.Verdict.Code == explain.VerdictUnreachable || s.Events[0].Code != explain.EventVerdict {
		t.Errorf("back: %v, %+v", st.err, s.Verdict)
	}
}

// Pods come to the picker's list and leave it.
func TestPodsComeAndGo(t *testing.T) {
	st := newStory(t, 1, 1)
	picks := map[string]int{"pod-0": 5, "pod-1": 5, "old": 7}
	s := st.after(0, []string{llmd(picks, map[string]int{"pod-0": 0})}, []string{vllm(0, 1)})
	if len(s.Pods) != 1 {
		t.Errorf("picks of before make pods: %+v", s.Pods)
	}
	picks["pod-1"] = 9
	s = st.after(time.Second, []string{llmd(picks, map[string]int{"pod-1": 0})}, []string{vllm(0, 1)})
	if s.Pods[0].State != explain.PodNotReady || s.Pods[1].State != explain.PodOK || s.Events[0].Code != explain.EventJoined {
		t.Errorf("pods %+v, events %+v", s.Pods, s.Events)
	}
	s = st.after(time.Second, []string{llmd(picks, map[string]int{"pod-0": 0})}, []string{vllm(0, 1)})
	if s.Pods[1].State != explain.PodGone || s.Pods[1].Picks[2] != 4 {
		t.Errorf("a pod that left with picks in the window: %+v", s.Pods[1])
	}
	st.after(time.Hour, []string{llmd(picks, map[string]int{"pod-0": 0})}, []string{vllm(0, 1)})
	s = st.after(time.Second, []string{llmd(picks, map[string]int{"pod-0": 0})}, []string{vllm(0, 1)})
	if len(s.Pods) != 1 || !slices.ContainsFunc(s.Events, func(e explain.FleetEvent) bool { return e.Code == explain.EventLeft && e.Pod == "pod-1" }) {
		t.Errorf("an hour later: %+v, %+v", s.Pods, s.Events)
	}
}

// The rules are those of our own picker: a pod that takes most and is slow is hot.
func TestHotPod(t *testing.T) {
	st := newStory(t, 1, 4)
	var s *explain.Snapshot
	for i := range 30 {
		picks := map[string]int{"pod-0": i, "pod-1": i, "pod-2": 9 * i, "pod-3": i}
		s = st.after(time.Second, []string{llmd(picks, map[string]int{"pod-0": 0, "pod-1": 0, "pod-2": 0, "pod-3": 0})},
			[]string{vllm(0, 1), vllm(0, 1), vllm(8, 1), vllm(0, 1)})
	}
	if s.Verdict.Code != explain.VerdictHotPod || s.Verdict.Pod != "pod-2" || s.Pods[2].State != explain.PodHot {
		t.Errorf("verdict %+v, %+v", s.Verdict, s.Pods[2])
	}
}

func TestJoin(t *testing.T) {
	at := func(url string) Engine { return Engine{URL: "http://" + url + "/metrics"} }
	for _, tc := range []struct {
		name      string
		engines   []Engine
		endpoints map[string]string // ports by name
		want      []string
	}{
		{"by name, whatever the address", []Engine{{Name: "b", URL: "http://a:8000/metrics"}}, map[string]string{"a": "8000", "b": "8000"}, []string{"b"}},
		{"by the host's name", []Engine{at("b.vllm.prod.svc:8000"), at("a:8000")}, map[string]string{"a": "8000", "b": "8000"}, []string{"b", "a"}},
		{"by an address that is the name", []Engine{at("10.0.0.7:8000")}, map[string]string{"10.0.0.7": "", "10": ""}, []string{"10.0.0.7"}},
		{"by ports that only one has", []Engine{at("10.0.0.7:8001"), at("10.0.0.7:8002")}, map[string]string{"a": "8002", "b": "8001"}, []string{"b", "a"}},
		{"two endpoints with that port", []Engine{at("10.0.0.7:8000")}, map[string]string{"a": "8000", "b": "8000"}, []string{""}},
		{"two engines with that port", []Engine{at("10.0.0.7:8000"), at("10.0.0.8:8000")}, map[string]string{"a": "8000"}, []string{"", ""}},
		{"the port that is left", []Engine{{Name: "a", URL: "http://10.0.0.7:8000/metrics"}, at("10.0.0.8:8000")}, map[string]string{"a": "8000", "b": "8000"}, []string{"a", "b"}},
		{"a name that nobody has", []Engine{{Name: "c", URL: "http://10.0.0.7:8000/metrics"}}, map[string]string{"a": "8000"}, []string{""}},
		{"a port that is not told", []Engine{at("10.0.0.7:8000")}, map[string]string{"a": ""}, []string{""}},
		{"the default port", []Engine{at("10.0.0.7")}, map[string]string{"a": "80"}, []string{"a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			endpoints := map[string]*endpoint{}
			for name, port := range tc.endpoints {
				endpoints[name] = &endpoint{name: name, port: port}
			}
			var got []string
			for _, e := range join(tc.engines, newFleet(Pages{Engines: tc.engines}).names, endpoints) {
				if e == nil {
					e = &endpoint{}
				}
				got = append(got, e.name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("endpoints of the engines (-want +got):\n%s", diff)
			}
		})
	}
}

// Pages of hours at ten a second are few, and windows right to a fifth.
func TestPastIsBounded(t *testing.T) {
	var p past
	for i := range 20_000 {
		at := noon.Add(time.Duration(i) * 100 * time.Millisecond)
		p.add(page(t, at, "epp_max_queue 20\n"))
		if len(p) > 40 {
			t.Fatalf("%d pages after %v", len(p), at.Sub(noon))
		}
		for k := range explain.WindowSeconds {
			r, ok := p.since(span(k))
			if !ok || at.Sub(noon) < span(k) {
				continue
			}
			if over := r.After.At.Sub(r.Before.At).Seconds() / span(k).Seconds(); over < 1 || over > 1.25 {
				t.Fatalf("at %v a window of %v is %.2f of it", at.Sub(noon), span(k), over)
			}
		}
	}
}

// Pages that lie are no harm: values that are none are unknown, pods are bounded, and
// the snapshot can be written.
func TestHostilePages(t *testing.T) {
	queues := map[string]int{"\x1b[2Jname": 1}
	for i := range maxEndpoints + 10 {
		queues[fmt.Sprintf("pod-%d", i)] = 1
	}
	st := newStory(t, 1, 1)
	odd := "vllm:num_requests_waiting NaN\nvllm:num_requests_running -1\nvllm:kv_cache_usage_perc +Inf\n" +
		"# TYPE vllm:time_to_first_token_seconds histogram\nvllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} NaN\n"
	text := llmd(map[string]int{"": 9}, queues) + "# TYPE llm_d_epp_prefix_indexer_hit_ratio histogram\nllm_d_epp_prefix_indexer_hit_ratio_sum NaN\n"
	var s *explain.Snapshot
	for range 3 {
		s = st.after(time.Second, []string{text}, []string{odd})
	}
	if len(s.Pods) > maxEndpoints+1 || !slices.ContainsFunc(s.Missing, func(m string) bool { return strings.Contains(m, "pods above 4096") }) {
		t.Errorf("%d pods, missing %q", len(s.Pods), s.Missing)
	}
	i := slices.IndexFunc(s.Pods, func(p explain.PodSnapshot) bool { return p.Pod == "pod-0" })
	if p := s.Pods[i]; p.Running != nil || p.KVUsage != nil || p.TTFTP95 != nil || p.CacheHitRatio != nil {
		t.Errorf("figures that are none: %+v", p)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
	if v := quantile(nil, .5); v != nil || rounded(math.Pi) != 3 {
		t.Error("a quantile of nothing")
	}
}
