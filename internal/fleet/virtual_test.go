package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/sim/status"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/score"
)

// virtual is a picker before simulated engines in virtual time: nothing of it
// depends on how fast the machine is, or on chance.
type virtual struct {
	t       *testing.T
	clock   *manual
	rng     *rand.Rand
	pool    *pool.Pool
	picker  *picker.Picker
	watch   *Watch
	engines []*virtualEngine
	running []*virtualRequest
	chats   [][]uint32 // conversations that wait for their next turn
}

type virtualEngine struct {
	*vllm.Engine
	target engine.Target
	usage  status.Usage
	seq    uint64
}

type virtualRequest struct {
	vllm.Sequence
	pick  *picker.Pick
	first bool
}

func newVirtual(t *testing.T, pods int, seed uint64) *virtual {
	v := &virtual{t: t, clock: &manual{now: epoch}, rng: rand.New(rand.NewPCG(seed, 7))}
	tree := prefix.New()
	v.pool = pool.New(pool.Config{Clock: v.clock, Tree: tree, BlockSize: vllm.TokensPerBlock, Models: []pool.ModelEntry{{Name: "m"}}})
	var members []pool.Member
	for i := range pods {
		members = append(members, pool.Member{Name: name(i), Address: at(i).endpoint})
	}
	v.must(v.pool.Set(members))
	profile, err := vllm.ProfileNamed("")
	v.must(err)
	for _, target := range v.pool.Targets() {
		e, err := vllm.New(vllm.Config{Model: "m", Profile: profile, Blocks: 8192, Vocabulary: []uint32{1, 2, 3, 5, 8, 13}, EndID: 99})
		v.must(err)
		v.engines = append(v.engines, &virtualEngine{Engine: e, target: target})
	}
	v.watch = New(Config{
		Clock: v.clock, Pods: v.pool.Views, Tree: tree.Stats, Weights: func() *score.Weights { return v.picker.Weights() },
		Open: func() int { return v.picker.Open() },
	})
	v.picker, err = picker.New(picker.Config{
		Pool: v.pool, Tree: tree, Recorder: record.NewRing(record.RingConfig{Bytes: 1 << 20}), Clock: v.clock, Weights: score.Default(),
		BlockSize: vllm.TokensPerBlock, Observer: v.watch, Random: rand.NewPCG(seed, 9), Hasty: true,
	})
	v.must(err)
	t.Cleanup(func() { v.must(v.picker.Close(context.Background())) })
	v.tell()
	v.report()
	v.watch.Look()
	return v
}

func (v *virtual) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v *virtual) now() time.Duration { return v.clock.Now().Sub(epoch) }

// tell gives the picker the engines' pages and probes.
func (v *virtual) tell() {
	now := v.clock.Now()
	for _, e := range v.engines {
		s := e.Stats(v.now())
		known := func(n float64) engine.Value { return engine.Value{Known: true, V: n} }
		v.pool.Scraped(e.target, engine.Scrape{Start: now, End: now, Page: engine.Page{
			Engine: "vllm", Waiting: known(float64(s.Waiting)), Running: known(float64(s.Running)), KVUsage: known(float64(s.Held) / float64(s.Blocks)),
		}})
		v.pool.Probed(e.target, engine.Probe{Healthy: true, At: now})
	}
}

// report gives it what they hold.
func (v *virtual) report() {
	for i, e := range v.engines {
		s := e.Stats(v.now())
		base := report.Report{
			Pod: name(i), Epoch: 1, Model: "m", BlockSize: vllm.TokensPerBlock, QueueDepth: &s.Waiting, GPUUtilization: e.usage.Read(v.now(), s.Busy),
			Health: new(1.0), TakenAt: v.clock.Now(),
		}
		for _, r := range status.Reports(base, e.Changes(e.seq == 0), report.MaxBlocks) {
			e.seq++
			r.Seq = e.seq
			if _, err := v.pool.Report(r, fmt.Sprintf("10.0.0.%d", i)); err != nil {
				v.t.Fatal(err)
			}
		}
	}
}

// arrive is the next turn of a conversation, or the first of a new one.
func (v *virtual) arrive() {
	tokens := []uint32(nil)
	if n := len(v.chats); n > 20 || n > 0 && v.rng.IntN(4) > 0 {
		i := v.rng.IntN(n)
		tokens, v.chats = v.chats[i], slices.Delete(v.chats, i, i+1)
	} else {
		system := rand.New(rand.NewPCG(v.rng.Uint64N(8), 1))
		for range 300 {
			tokens = append(tokens, system.Uint32N(50_000))
		}
	}
	for range 60 {
		tokens = append(tokens, v.rng.Uint32N(50_000))
	}
	pick, err := v.picker.Pick(context.Background(), &picker.Call{
		ID: "r", Path: "/v1/completions", Arrival: v.clock.Now(), Request: &request.Request{
			Kind: request.Completions, Model: "m", Tokens: tokens, TotalTokens: len(tokens), PromptTokens: [][]uint32{tokens}, TokensFrom: request.FromIDs,
		},
	})
	v.must(err)
	r := &virtualRequest{pick: pick, Sequence: vllm.Sequence{Prompt: tokens, MaxTokens: 64, Choice: v.rng.Uint64(), Stream: true}}
	v.must(v.engine(pick.Pod()).Submit(v.now(), &r.Sequence))
	v.running = append(v.running, r)
}

func (v *virtual) engine(pod string) *virtualEngine {
	i := slices.IndexFunc(v.engines, func(e *virtualEngine) bool { return e.target.Name == pod })
	return v.engines[i]
}

// answer takes what the engines have done since the last time.
func (v *virtual) answer() {
	for _, e := range v.engines {
		e.Advance(v.now())
	}
	v.running = slices.DeleteFunc(v.running, func(r *virtualRequest) bool {
		if !r.first && r.FirstToken > 0 {
			r.first = true
			r.pick.Answered(200)
			r.pick.FirstByte()
		}
		if r.Ended == 0 {
			return false
		}
		r.pick.Done(picker.End{
			Status: 200, ServedEndpoint: r.pick.Endpoint(), PromptTokens: len(r.Prompt), CachedTokens: r.Cached, OutputTokens: len(r.Output),
		})
		if chat := append(slices.Clip(r.Prompt), r.Output...); len(chat) < 2000 {
			v.chats = append(v.chats, chat)
		}
		return true
	})
}

// pass lets time pass with so many requests a second, and calls see after each
// look of the picker.
func (v *virtual) pass(d time.Duration, rate float64, see func(s *explain.Snapshot)) {
	const step = 10 * time.Millisecond
	next := v.now()
	for end := v.now() + d; v.now() < end; {
		v.clock.pass(step)
		v.answer()
		for next < v.now() {
			next += time.Duration(v.rng.ExpFloat64() / rate * float64(time.Second))
			v.arrive()
		}
		now := v.now()
		if now%(200*time.Millisecond) == 0 {
			v.tell()
		}
		if now%(2*time.Second) == 0 {
			v.report()
		}
		if now%time.Second == 0 {
			v.watch.Look()
			see(v.watch.Snapshot())
		}
	}
}

// Ten minutes of healthy traffic have no verdict but ok, however busy the pods are.
func TestTenHealthyMinutes(t *testing.T) {
	for _, tc := range []struct {
		pods int
		rate float64
	}{{1, 1}, {3, 2}, {4, 8}, {8, 16}} {
		t.Run(fmt.Sprintf("pods=%d/rate=%v", tc.pods, tc.rate), func(t *testing.T) {
			v := newVirtual(t, tc.pods, 1)
			var last *explain.Snapshot
			v.pass(10*time.Minute, tc.rate, func(s *explain.Snapshot) {
				if last = s; s.Verdict.Code != explain.VerdictOK {
					t.Fatalf("after %.0f s: %+v", s.Router.Uptime, s.Verdict)
				}
			})
			if w := last.Windows[2]; float64(w.Completed) < 250*tc.rate || w.Failed != 0 || *w.TTFTP95 <= 0 || *w.MatchRatio < .5 || w.CachedTokens == 0 {
				t.Errorf("the last 5 minutes are %+v", w)
			}
			if len(last.Events) != 0 {
				t.Errorf("events %+v", last.Events)
			}
		})
	}
}

// Far more traffic than the pods can take is saturation, and is told as such within
// the time that the queues take to fill.
func TestTooMuchTrafficSaturates(t *testing.T) {
	v := newVirtual(t, 2, 1)
	for _, e := range v.engines {
		e.SetSlow(50)
	}
	saturated := 0
	v.pass(2*time.Minute, 4, func(s *explain.Snapshot) {
		switch s.Verdict.Code {
		case explain.VerdictSaturated:
			saturated++
		case explain.VerdictOK:
		default:
			t.Fatalf("after %.0f s: %+v", s.Router.Uptime, s.Verdict)
		}
	})
	if saturated < 30 {
		t.Errorf("saturated for %d of 120 s", saturated)
	}
	for _, e := range v.engines {
		e.SetSlow(1)
	}
	v.pass(time.Minute, 1, func(*explain.Snapshot) {})
	if s := v.watch.Snapshot(); s.Verdict.Code != explain.VerdictOK {
		t.Errorf("after it: %+v", s.Verdict)
	}
}
