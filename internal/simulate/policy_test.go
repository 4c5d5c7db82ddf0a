package simulate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/score"
)

func TestParsePolicy(t *testing.T) {
	base := score.Default()
	base.MaxQueue = 7
	for text, want := range map[string]string{
		"eppctl": "", "eppctl:preset=rag": "", "eppctl:cache=.5:queue=.2": "", "oracle:maxQueue=8:saturation=reject": "",
		"consistent-hash:bytes=64": "", "consistent-hash:header": "",
		"epctl":                   `policy "epctl": did you mean eppctl?`,
		"eppctl:cache=.5":         `policy "eppctl:cache=.5": weights: sum is 0.9`,
		"eppctl:cach=.5":          `policy "eppctl:cach=.5": unknown weight "cach"`,
		"eppctl:preset=fast":      `policy "eppctl:preset=fast": `,
		"eppctl:maxQueue=1.5":     `policy "eppctl:maxQueue=1.5": maxQueue: want a whole number`,
		"eppctl:cache=much":       `policy "eppctl:cache=much": cache: want a number, got "much"`,
		"random:seed=1":           `policy "random:seed=1": takes no options`,
		"consistent-hash:bytes=0": `policy "consistent-hash:bytes=0": bytes: want a number above 0`,
		"consistent-hash:cookie":  `policy "consistent-hash:cookie": no option "cookie"; there are header and bytes=N`,
	} {
		p, err := ParsePolicy(text, base)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if text == "eppctl" && p.weights.MaxQueue != 7 {
			t.Error("eppctl does not begin with the weights that were given")
		}
	}
	if p := policies(t, "queue-only")[0]; p.weights.Queue != 1 || p.weights.Cache != 0 {
		t.Errorf("queue-only weighs %+v", p.weights)
	}
}

// routed is the pods that requests go to, none of which ends.
func routed(t *testing.T, policy, pods string, requests ...Request) (b *balancer, picked []int) {
	t.Helper()
	cfg := fleetOf(t, &Trace{Requests: make([]Request, 1)}, pods, policy)
	r, err := newRun(cfg, cfg.Policies[0])
	if err != nil {
		t.Fatal(err)
	}
	b = r.router.(*balancer)
	for i := range requests {
		j := &job{run: r, request: &requests[i]}
		b.route(j)
		picked = append(picked, j.pod.index)
	}
	return b, picked
}

func TestBalancers(t *testing.T) {
	of := func(session, client uint64) Request {
		return Request{Session: session, Client: client, Prompt: then(nil, session, 100)}
	}
	for _, tt := range []struct {
		policy, pods string
		want         []int
	}{
		{"round-robin", "3", []int{0, 1, 2, 0, 1, 2}},
		{"least-connections", "3", []int{0, 1, 2, 0, 1, 2}},
		// An A10G is worth less than a quarter of an A100.
		{"weighted-round-robin", "a100=1,a10g=1", []int{0, 0, 0, 1, 0, 0}},
		{"weighted-round-robin", "3", []int{0, 1, 2, 0, 1, 2}},
		{"sticky", "3", []int{0, 1, 0, 2, 1, 0}},
	} {
		_, got := routed(t, tt.policy, tt.pods, of(1, 1), of(2, 1), of(1, 2), of(3, 1), of(2, 1), of(1, 1))
		if tt.policy == "weighted-round-robin" && tt.pods != "3" {
			if n := len(slices.DeleteFunc(got, func(i int) bool { return i == 0 })); n != 1 {
				t.Errorf("%d of 6 requests went to the slow pod, want 1", n)
			}
			continue
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s on %s: %v, want %v", tt.policy, tt.pods, got, tt.want)
		}
	}
}

// Hashes send alike to alike, and spread the rest; a pod that is down costs only
// those that were its own.
func TestHashes(t *testing.T) {
	const pods, keys = 8, 400
	var requests []Request
	for i := range uint64(keys) {
		requests = append(requests, Request{Session: i, Client: i, URI: i, Prompt: then(nil, i, 100)})
	}
	for _, policy := range []string{"ip-hash", "consistent-hash", "consistent-hash:bytes=100", "uri-hash"} {
		b, first := routed(t, policy, "8", requests...)
		counts := make([]int, pods)
		for i := range requests {
			if again := b.choose(&requests[i]); again != first[i] {
				t.Fatalf("%s: request %d went to pod %d and then to %d", policy, i, first[i], again)
			}
			counts[first[i]]++
		}
		if slices.Min(counts) < keys/pods/3 {
			t.Errorf("%s: uneven: %v", policy, counts)
		}
		b.up[3] = false
		for i := range requests {
			switch now := b.choose(&requests[i]); {
			case now == 3:
				t.Fatalf("%s: a request went to a pod that is down", policy)
			case first[i] != 3 && now != first[i]:
				t.Fatalf("%s: request %d moved though its pod is up", policy, i)
			}
		}
	}
}

// A pod that dies loses its requests; those that come find another one, also before
// anybody has probed.
func TestPodsDieAndComeBack(t *testing.T) {
	tr := generated(t, "gen:chat:requests=400:rate=20:think=2", 1)
	cfg := fleetOf(t, tr, "3", everyKind()...)
	cfg.Profile.Faults = []Fault{{Pod: "sim-1", At: Duration(5 * time.Second), For: Duration(5 * time.Second)}}
	for _, run := range mustRun(t, cfg).Runs {
		served, failed := 0, 0
		for i, o := range run.Outcomes {
			switch at := tr.Requests[i].At; {
			case o.Ending == Failed:
				if failed++; o.Ended != 5*time.Second || o.Pod != 1 {
					t.Errorf("%s: request %d failed at %v on pod %d", run.Policy.Name, i, o.Ended, o.Pod)
				}
			case o.Ending != Completed:
				t.Errorf("%s: request %d ended as %d", run.Policy.Name, i, o.Ending)
			case o.Pod == 1 && at > 10*time.Second:
				served++
			case o.Pod == 1 && at > 5*time.Second:
				t.Errorf("%s: request %d went to a dead pod at %v", run.Policy.Name, i, at)
			}
		}
		if served == 0 && run.Policy.kind != kindURI && run.Policy.by != "bytes" { // which hash few keys
			t.Errorf("%s: the pod that came back got nothing", run.Policy.Name)
		}
	}
}

func TestScheduleIsTheEarliest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "alarms")
		s := newSchedule(n)
		at := make([]time.Duration, n)
		for i := range at {
			at[i] = never
		}
		for range 30 {
			i := rapid.IntRange(0, n-1).Draw(t, "alarm")
			at[i] = rapid.SampledFrom([]time.Duration{0, 1, 2, never}).Draw(t, "at")
			s.set(i, at[i])
			want := slices.Min(at)
			if k, got := s.next(); got != want || k != slices.Index(at, want) {
				t.Fatalf("next is alarm %d at %v of %v", k, got, at)
			}
		}
	})
}
