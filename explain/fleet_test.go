package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// wellFleet is n pods of a healthy fleet under even load, whose caches are told by
// events.
func wellFleet(n int) *explain.Snapshot {
	s := &explain.Snapshot{
		APIVersion: explain.APIVersion, Kind: explain.KindSnapshot, Time: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
		Router: explain.RouterState{Uptime: 600, MaxQueue: 20},
		Index:  explain.IndexState{LastHeard: new(.5), Streams: n, Connected: n},
	}
	for range n {
		s.Pods = append(s.Pods, explain.PodSnapshot{
			Pod: "pod-" + string(rune('a'+len(s.Pods))), State: explain.PodOK, Picks: []int{5, 60, 300}, PicksShare: new(1 / float64(n)),
			DecidedBy: map[string]int{"cacheMatch": 50, "load": 10}, Served: 60, CacheSource: "events", AgeSeconds: new(.2), Load: new(.6),
			TTFTP95: new(.3), Queue: explain.QueueSnapshot{Waiting: new(1.0), Pending: 1, Max: 20},
			Stream: &explain.StreamState{Ranks: 1, Connected: 1, AgeSeconds: new(.5)},
		})
	}
	for i, seconds := range explain.WindowSeconds {
		picks := []int{5, 60, 300}[i] * n
		s.Windows = append(s.Windows, explain.WindowRates{Seconds: seconds, Decisions: picks, Completed: picks})
	}
	return s
}

// judged is the verdict after the snapshot has been the same for a while.
func judged(s *explain.Snapshot) *explain.FleetVerdict {
	var w explain.FleetWatch
	begun := s.Time
	for s.Time.Sub(begun) <= 15*time.Second {
		w.Judge(s)
		s.Time = s.Time.Add(time.Second)
	}
	return &s.Verdict
}

// Each rule, and what is easily taken for it.
func TestFleetVerdicts(t *testing.T) {
	each := func(change func(p *explain.PodSnapshot)) func(s *explain.Snapshot) {
		return func(s *explain.Snapshot) {
			for i := range s.Pods {
				change(&s.Pods[i])
			}
		}
	}
	first := func(change func(p *explain.PodSnapshot)) func(s *explain.Snapshot) {
		return func(s *explain.Snapshot) { change(&s.Pods[0]) }
	}
	for _, tc := range []struct {
		name   string
		change func(s *explain.Snapshot)
		want   string // code
		pod    string
		says   string // part of the message
	}{
		{"healthy", func(*explain.Snapshot) {}, explain.VerdictOK, "", "all 4 pods take requests"},
		{"idle", func(s *explain.Snapshot) {
			s.Windows = make([]explain.WindowRates, 3)
			s.Index.LastHeard = new(3600.0)
			each(func(p *explain.PodSnapshot) {
				p.Picks, p.PicksShare, p.Served, p.Stream.AgeSeconds, p.TTFTP95 = []int{0, 0, 0}, nil, 0, new(3600.0), nil
			})(s)
		}, explain.VerdictOK, "", ""},
		{"one is down", first(func(p *explain.PodSnapshot) { p.State = explain.PodDown }), explain.VerdictOK, "", "3 of 4 pods take requests"},

		{"none is up", each(func(p *explain.PodSnapshot) { p.State, p.Reason = explain.PodDown, "connection refused" }), explain.VerdictNoEndpoints, "", "none of 4 pods takes requests: 4 DOWN"},
		{"no pods", func(s *explain.Snapshot) { s.Pods = nil }, explain.VerdictNoEndpoints, "", "the pool is empty"},

		{"every queue is full", each(func(p *explain.PodSnapshot) { p.Queue.Waiting, p.State = new(19.0), explain.PodFull }), explain.VerdictSaturated, "", "the queues of 4 of 4 pods are full: 80 of 80"},
		{"a fifth is shed", func(s *explain.Snapshot) { s.Windows[0].Shed, s.Windows[0].Refused = 4, 4 }, explain.VerdictSaturated, "", ""},
		{"a fifth is relaxed", func(s *explain.Snapshot) { s.Windows[0].Relaxed = 4 }, explain.VerdictSaturated, "", ""},
		{"less is shed", func(s *explain.Snapshot) { s.Windows[0].Shed = 3 }, explain.VerdictOK, "", ""},
		{"refused for another reason", func(s *explain.Snapshot) { s.Windows[0].Refused = 10 }, explain.VerdictOK, "", ""},
		{"all but one are full", func(s *explain.Snapshot) {
			for i := range 3 {
				s.Pods[i].Queue.Waiting, s.Pods[i].State = new(20.0), explain.PodFull
			}
		}, explain.VerdictOK, "", ""},

		{"nobody tells", func(s *explain.Snapshot) { s.Index.LastHeard = new(31.0) }, explain.VerdictIndexDead, "", "no pod has told what it holds for 31s"},
		{"nobody ever told", func(s *explain.Snapshot) { s.Index.LastHeard = nil }, explain.VerdictIndexDead, "", "no pod has ever told"},
		{"one pod tells nothing", first(func(p *explain.PodSnapshot) { p.Stream.AgeSeconds = new(40.0) }), explain.VerdictIndexDead, "pod-a", "pod-a has sent no event for 40s"},
		{"a pod that serves nothing tells nothing", first(func(p *explain.PodSnapshot) { p.Stream.AgeSeconds, p.Served = new(40.0), 0 }), explain.VerdictOK, "", ""},
		{"short prompts leave nothing to tell", func(s *explain.Snapshot) {
			s.Index.LastHeard = nil
			each(func(p *explain.PodSnapshot) { p.Stream.AgeSeconds, p.ComputedTokens = nil, new(12.0) })(s)
		}, explain.VerdictOK, "", ""},
		{"long ones do", first(func(p *explain.PodSnapshot) { p.Stream.AgeSeconds, p.ComputedTokens = new(40.0), new(90.0) }), explain.VerdictIndexDead, "pod-a", ""},
		{"its reports tell", first(func(p *explain.PodSnapshot) { p.Stream.AgeSeconds, p.CacheSource = new(40.0), "report" }), explain.VerdictOK, "", ""},
		{"nobody was expected to tell", func(s *explain.Snapshot) {
			s.Index = explain.IndexState{}
			each(func(p *explain.PodSnapshot) { p.Stream, p.CacheSource = nil, "assumed" })(s)
		}, explain.VerdictOK, "", ""},

		{"figures are old", first(func(p *explain.PodSnapshot) {
			p.State, p.Queue.Stale, p.AgeSeconds, p.Reason = explain.PodStale, true, new(7.2), "HTTP 404"
		}), explain.VerdictStale, "pod-a", "pod-a's figures are 7.2s old and count 0; it gets 25% of picks"},
		{"all figures are old", each(func(p *explain.PodSnapshot) { p.State = explain.PodStale }), explain.VerdictStale, "", "the figures of all 4 pods"},
		{"figures are nearly old", first(func(p *explain.PodSnapshot) { p.AgeSeconds = new(5.5) }), explain.VerdictOK, "", ""},
		{"figures of a pod that is down are old", first(func(p *explain.PodSnapshot) { p.State, p.Queue.Stale = explain.PodDown, true }), explain.VerdictOK, "", ""},

		{"out and back twice", first(func(p *explain.PodSnapshot) { p.Flaps = 4 }), explain.VerdictFlapping, "pod-a", "4 times in 5 minutes"},
		{"out and back once, and out", first(func(p *explain.PodSnapshot) { p.Flaps, p.State = 3, explain.PodDown }), explain.VerdictOK, "", ""},

		{"a herd", func(s *explain.Snapshot) {
			s.Windows[0].Decisions = 25
			s.Pods[0].Picks[0], s.Pods[0].Queue.Pending = 20, 12
		}, explain.VerdictHerd, "pod-a", "20 of the last 25 picks, 12 of them not yet seen"},
		{"as many that its figures show", func(s *explain.Snapshot) {
			s.Windows[0].Decisions = 25
			s.Pods[0].Picks[0], s.Pods[0].Queue.Waiting = 20, new(3.0)
		}, explain.VerdictOK, "", ""},
		{"as many pending everywhere", each(func(p *explain.PodSnapshot) { p.Queue.Pending = 12 }), explain.VerdictOK, "", ""},
		{"a herd of two pods is half of the traffic", func(s *explain.Snapshot) {
			s.Pods = s.Pods[:2]
			s.Windows[0].Decisions = 25
			s.Pods[0].Picks[0], s.Pods[0].Queue.Pending = 20, 12
		}, explain.VerdictOK, "", ""},

		{"a hot pod waits", hot(func(p *explain.PodSnapshot) { p.Queue.Waiting = new(7.0) }), explain.VerdictHotPod, "pod-a", "pod-a takes 62% of picks, 5.0x the median; 8 requests in its queue"},
		{"a hot pod is slow", hot(func(p *explain.PodSnapshot) { p.Load, p.TTFTP95 = new(.95), new(1.2) }), explain.VerdictHotPod, "pod-a", "TTFT p95 1.20 s where others have 300.0 ms"},
		{"as much traffic and as quick", hot(func(*explain.PodSnapshot) {}), explain.VerdictOK, "", ""},
		{"busy and nearly as quick", hot(func(p *explain.PodSnapshot) { p.Load, p.TTFTP95 = new(1.0), new(.8) }), explain.VerdictOK, "", ""},
		{"slow with its share", first(func(p *explain.PodSnapshot) { p.Load, p.TTFTP95, p.Queue.Waiting = new(1.0), new(2.0), new(9.0) }), explain.VerdictOK, "", ""},
		{"a picker without a history", func(s *explain.Snapshot) {
			hot(func(p *explain.PodSnapshot) { p.Queue.Waiting = new(7.0) })(s)
			s.Router.Uptime = 9
		}, explain.VerdictOK, "", ""},
		{"half of the pods have nothing to do", func(s *explain.Snapshot) {
			for i, n := range []int{130, 110, 0, 0} {
				s.Pods[i].Picks[1] = n
			}
			s.Pods[0].Queue.Waiting = new(7.0)
		}, explain.VerdictHotPod, "pod-a", "54% of picks, 2.4x the median"},

		{"adapters come and go", func(s *explain.Snapshot) {
			s.Windows[1].AdapterLoads = 14
			s.Pods[0].Adapters.Reloads, s.Pods[1].Adapters.Reloads = 7, 5
		}, explain.VerdictThrash, "", "12 adapters in the last minute were loaded again on 2 pods"},
		{"adapters come and go on one pod", func(s *explain.Snapshot) { s.Pods[2].Adapters.Reloads = 10 }, explain.VerdictThrash, "pod-c", ""},
		{"adapters are loaded for the first time", func(s *explain.Snapshot) {
			s.Windows[1].AdapterLoads = 40
			each(func(p *explain.PodSnapshot) { p.Adapters.Loads = 10 })(s)
		}, explain.VerdictOK, "", ""},
		{"a few are loaded again", each(func(p *explain.PodSnapshot) { p.Adapters.Reloads = 2 }), explain.VerdictOK, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := wellFleet(4)
			tc.change(s)
			v := judged(s)
			if v.Code != tc.want || v.Pod != tc.pod || !strings.Contains(v.Message, tc.says) {
				t.Errorf("%s of %q: %s\nwant %s of %q with %q", v.Code, v.Pod, v.Message, tc.want, tc.pod, tc.says)
			}
			if len(v.Also) > 0 {
				t.Errorf("also %v", v.Also)
			}
			if ok := v.Code == explain.VerdictOK; ok != (v.Since == nil) || ok != (v.Key == "") || v.Evidence == nil {
				t.Errorf("since %v, key %q, evidence %v", v.Since, v.Key, v.Evidence)
			}
		})
	}
}

// hot gives pod-a five times the picks of each other pod, and a burden.
func hot(burden func(p *explain.PodSnapshot)) func(s *explain.Snapshot) {
	return func(s *explain.Snapshot) {
		for i, n := range []int{150, 30, 30, 30} {
			s.Pods[i].Picks[1] = n
		}
		burden(&s.Pods[0])
	}
}

// Of several verdicts the gravest is told, and the codes of the others.
func TestTheGravestVerdictComesFirst(t *testing.T) {
	s := wellFleet(4)
	hot(func(p *explain.PodSnapshot) { p.Queue.Waiting = new(7.0) })(s)
	s.Pods[1].Flaps, s.Pods[2].Flaps = 4, 6
	s.Windows[0].Relaxed = 20
	v := judged(s)
	if want := []string{explain.VerdictFlapping, explain.VerdictHotPod}; v.Code != explain.VerdictSaturated || !slices.Equal(v.Also, want) {
		t.Errorf("%s, also %v; want saturated, also %v", v.Code, v.Also, want)
	}
}

// A verdict holds on for five seconds, and remembers since when it has held; one of
// queues, which come and go, is told after ten.
func TestVerdictsDoNotFlicker(t *testing.T) {
	var w explain.FleetWatch
	begun := wellFleet(1).Time
	at := func(second int, flaps, waiting int) *explain.FleetVerdict {
		s := wellFleet(4)
		s.Time = begun.Add(time.Duration(second) * time.Second)
		hot(func(p *explain.PodSnapshot) { p.Queue.Waiting = new(float64(waiting)) })(s)
		s.Pods[0].Flaps = flaps
		w.Judge(s)
		if hot := s.Pods[0].State == explain.PodHot; hot != (s.Verdict.Code == explain.VerdictHotPod) {
			t.Errorf("second %d: the verdict is %s, and the pod %s", second, s.Verdict.Code, s.Pods[0].State)
		}
		return &s.Verdict
	}
	for _, step := range []struct {
		second, flaps, waiting int
		want                   string
		since                  int
	}{
		{0, 4, 0, explain.VerdictFlapping, 0},
		{1, 0, 0, explain.VerdictFlapping, 0},
		{5, 0, 0, explain.VerdictFlapping, 0},
		{6, 0, 0, explain.VerdictOK, 0},
		{7, 4, 0, explain.VerdictFlapping, 7},
		{13, 0, 9, explain.VerdictOK, 0},
		{17, 0, 0, explain.VerdictOK, 0}, // a moment without a queue
		{18, 0, 9, explain.VerdictOK, 0},
		{22, 0, 9, explain.VerdictOK, 0},
		{23, 0, 9, explain.VerdictHotPod, 13},
		{28, 0, 0, explain.VerdictHotPod, 13},
		{29, 0, 0, explain.VerdictOK, 0},
	} {
		v := at(step.second, step.flaps, step.waiting)
		if v.Code != step.want {
			t.Fatalf("second %d: %s, want %s", step.second, v.Code, step.want)
		}
		if v.Since != nil && !v.Since.Equal(begun.Add(time.Duration(step.since)*time.Second)) {
			t.Errorf("second %d: since %v, want second %d", step.second, v.Since, step.since)
		}
	}
}

// The pods beside the verdict would contradict it.
func TestNoEndpointsIsOverAtOnce(t *testing.T) {
	var watch explain.FleetWatch
	s := wellFleet(4)
	pods := s.Pods
	s.Pods = nil
	if watch.Judge(s); s.Verdict.Code != explain.VerdictNoEndpoints {
		t.Fatalf("without pods: %s", s.Verdict.Code)
	}
	s.Pods, s.Time = pods, s.Time.Add(time.Second)
	if watch.Judge(s); s.Verdict.Code != explain.VerdictOK {
		t.Errorf("with pods, a second later: %s: %s", s.Verdict.Code, s.Verdict.Message)
	}
}

func TestUnreachableVerdict(t *testing.T) {
	since := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	v := explain.Unreachable("http://127.0.0.1:9091", "connection refused", since)
	if v.Code != explain.VerdictUnreachable || !v.Since.Equal(since) || !strings.Contains(v.Message, "http://127.0.0.1:9091") ||
		!slices.Equal(v.Evidence, []string{"connection refused"}) {
		t.Errorf("%+v", v)
	}
}
