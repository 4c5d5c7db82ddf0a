package simulate

import (
	"math"
	"testing"
	"time"
)

// Two turns without a shared prefix on 32 pods at random: the second turn is where the
// first was with a chance of 1/32.
func TestRandomHitsOnePodInN(t *testing.T) {
	const pods, conversations = 32, 10_000
	tr := generated(t, "gen:chat:requests=20000:rate=20:turns=2:system=0:question=40:answer=3:think=5", 1)
	second, hits := 0, 0
	out := mustRun(t, fleetOf(t, tr, "32", "random")).Runs[0].Outcomes
	for i := range tr.Requests {
		if tr.Requests[i].Turn == 2 && second < conversations {
			second++
			if out[i].Cached > 0 {
				hits++
			}
		}
	}
	const p = 1.0 / pods
	sigma := math.Sqrt(p * (1 - p) / float64(second))
	if share := float64(hits) / float64(second); second < 9_000 || math.Abs(share-p) > 3*sigma {
		t.Errorf("%d of %d second turns found their first: %.4f, want %.4f ± %.4f", hits, second, share, p, 3*sigma)
	}
}

// alone makes a trace of requests that come one by one: each of pieces, after so many
// seconds.
func alone(seconds []float64, prompts ...[]Piece) *Trace {
	tr := new(Trace)
	for i, p := range prompts {
		tr.Requests = append(tr.Requests, Request{At: time.Duration(seconds[i] * float64(time.Second)), Prompt: p, Output: 2})
	}
	return tr
}

// A herd: 50 requests in one instant with a prefix that one of four idle pods holds.
// The first 20 go there, then it is full; the others have 10 each.
func TestHerdSpills(t *testing.T) {
	prefix := then(nil, 1, 4096)
	seconds, prompts := []float64{0}, [][]Piece{prefix}
	for i := range 50 {
		seconds, prompts = append(seconds, 30), append(prompts, then(clip(prefix), uint64(100+i), 20))
	}
	out := mustRun(t, fleetOf(t, alone(seconds, prompts...), "4", "eppctl")).Runs[0].Outcomes
	hot, first := out[0].Pod, 0
	counts := map[int32]int{}
	for i, o := range out[1:] {
		counts[o.Pod]++
		if o.Pod == hot && first == i {
			first++
		}
	}
	if first != 20 || counts[hot] != 20 {
		t.Errorf("the first %d of %d on the hot pod came at once, want 20 of 20", first, counts[hot])
	}
	for pod, n := range counts {
		if pod != hot && n != 10 {
			t.Errorf("pod %d has %d of the rest, want 10", pod, n)
		}
	}
	if len(counts) != 4 {
		t.Errorf("%d pods were picked, want 4", len(counts))
	}
}

// The cost of a miss by the profiles: a prompt of 4,096 tokens takes 0.9 s on an 8B
// model and 8.2 s on a 70B one, and 45 ms when it is wholly cached but for its last
// block.
func TestPrefillCosts(t *testing.T) {
	for _, tt := range []struct {
		profile   string
		cold, hot time.Duration
	}{{"llama-8b", 900 * time.Millisecond, 56 * time.Millisecond}, {"llama-70b", 8200 * time.Millisecond, 102 * time.Millisecond}} {
		prompt := then(nil, 1, 4096)
		cfg := fleetOf(t, alone([]float64{0, 60}, prompt, prompt), "1", "random")
		p, err := ProfileNamed(tt.profile)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Profile = p
		out := mustRun(t, cfg).Runs[0].Outcomes
		for i, want := range []time.Duration{tt.cold, tt.hot} {
			if got := out[i].TTFT; math.Abs(float64(got-want)) > 0.06*float64(want) {
				t.Errorf("%s, prompt %d: first token after %v, want %v", tt.profile, i+1, got, want)
			}
		}
	}
}

// A cache advantage above the dominance bound wins against any load; below it need not.
func TestCacheDominates(t *testing.T) {
	system := then(nil, 1, 1600)
	seconds, prompts := []float64{0}, [][]Piece{system}
	for i := range 15 { // keep the pod that holds it busy
		seconds, prompts = append(seconds, 20+0.2*float64(i)), append(prompts, then(clip(system), uint64(50+i), 400))
	}
	for _, tt := range []struct {
		own  int // tokens of the last request that nobody holds
		stay bool
	}{{400, true}, {16_000, false}} {
		last := then(clip(system), 99, tt.own)
		out := mustRun(t, fleetOf(t, alone(append(seconds, 24), append(prompts, last)...), "4", "eppctl")).Runs[0].Outcomes
		for i := range out[:len(out)-1] {
			if out[i].Pod != out[0].Pod {
				t.Fatalf("request %d with 80%% of its prompt cached went to another pod", i)
			}
		}
		if stayed := out[len(out)-1].Pod == out[0].Pod; stayed != tt.stay {
			t.Errorf("with %d tokens of its own the last request stayed: %v, want %v", tt.own, stayed, tt.stay)
		}
	}
}

// Conversations stay where they are by their caches alone, as with sticky sessions;
// least connections scatters them.
func TestAffinityFollowsFromCaches(t *testing.T) {
	tr := generated(t, "gen:chat:requests=2000:rate=8:turns=6", 5)
	runs := mustRun(t, fleetOf(t, tr, "8", "eppctl", "sticky", "least-connections"))
	stays := func(run PolicyRun) float64 {
		last := map[uint64]int32{}
		later, stayed := 0, 0
		for i := range tr.Requests {
			q := &tr.Requests[i]
			if pod, ok := last[q.Session]; ok {
				later++
				if pod == run.Outcomes[i].Pod {
					stayed++
				}
			}
			last[q.Session] = run.Outcomes[i].Pod
		}
		return float64(stayed) / float64(later)
	}
	eppctl, sticky, least := stays(runs.Runs[0]), stays(runs.Runs[1]), stays(runs.Runs[2])
	if eppctl < 0.85 || sticky != 1 || least > 0.25 {
		t.Errorf("turns that stay: eppctl %.2f, sticky %.2f, least-connections %.2f", eppctl, sticky, least)
	}
	r := runs.Report(ReportOptions{}).Policies
	if *r[0].CacheHitRatio < *r[2].CacheHitRatio+0.15 {
		t.Errorf("cached: eppctl %.3f, least-connections %.3f", *r[0].CacheHitRatio, *r[2].CacheHitRatio)
	}
}

// Consistent hashing of the prompt's beginning keeps those together that are spelled
// alike, and tears apart those that have the same tokens in another spelling; what
// holds the tokens does not mind.
func TestHashesMindTheSpelling(t *testing.T) {
	hit := func(vary string) map[string]float64 {
		tr := generated(t, "gen:rag:requests=600:rate=2:documents=20:uris=1:systems=20:vary="+vary, 1)
		ratios := map[string]float64{}
		for _, p := range mustRun(t, fleetOf(t, tr, "8", "uri-hash", "consistent-hash:bytes=4096", "eppctl")).Report(ReportOptions{}).Policies {
			ratios[p.Policy] = *p.CacheHitRatio
		}
		return ratios
	}
	same, varied := hit("0"), hit("0.5")
	for _, policy := range []string{"uri-hash", "consistent-hash:bytes=4096"} {
		if lost := same[policy] - varied[policy]; lost < 0.05 {
			t.Errorf("%s: %.3f with one spelling, %.3f with many", policy, same[policy], varied[policy])
		}
	}
	if lost := math.Abs(same["eppctl"] - varied["eppctl"]); lost > 0.02 {
		t.Errorf("eppctl: %.3f with one spelling, %.3f with many", same["eppctl"], varied["eppctl"])
	}
}
