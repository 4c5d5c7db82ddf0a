package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// The fleet is looked at once a second of its clock, but not more often than every
// 20 ms of the wall's.
func TestOneLookASecond(t *testing.T) {
	for scale, want := range map[float64]int{1: 10, 20: 200, 50: 500, 1000: 500} {
		t.Run(fmt.Sprint(scale), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				w := New(Config{
					Clock: clock.NewScaled(scale), Pods: func() []pool.View { looks++; return nil }, Tree: func() prefix.Stats { return prefix.Stats{} },
					Weights: func() *score.Weights { return new(score.Default()) }, Open: func() int { return 0 },
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
				defer cancel()
				if err := w.Run(ctx); err != nil {
					t.Fatal(err)
				}
				if looks < want-1 || looks > want {
					t.Errorf("%d looks in 10 s, want %d", looks, want)
				}
				reader, _ := w.Subscribe()
				defer reader.Close()
				<-reader.Done()
			})
		})
	}
}

// The states of a pod, in a word.
func TestPodStates(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(v *pool.View)
		want   string
		reason string
	}{
		{"well", func(*pool.View) {}, explain.PodOK, ""},
		{"a little worse", func(v *pool.View) { v.State.Health.Value = .9 }, explain.PodOK, ""},
		{"sick", func(v *pool.View) { v.State.Health.Value = .5 }, explain.PodSick, "health 0.50"},
		{"down", func(v *pool.View) { v.State.Health.Value = .1 }, explain.PodDown, "health 0.10"},
		{"drained", func(v *pool.View) { v.State.Health = score.Read(0, score.SourceManual) }, explain.PodDraining, "drained by an operator"},
		{"terminating", func(v *pool.View) { v.State.Excluded = score.Terminating }, explain.PodDraining, "it is terminating"},
		{"not ready", func(v *pool.View) { v.State.Excluded = score.NotReady }, explain.PodNotReady, "it is not ready"},
		{"for others", func(v *pool.View) { v.State.Excluded = score.PrefillOnly }, explain.PodPrefill, "it computes prompts for other pods"},
		{"full", func(v *pool.View) { v.State.Waiting.Value, v.State.Pending = 12, 8 }, explain.PodFull, "12 waiting + 8 pending of 20"},
		{"stale", func(v *pool.View) { v.State.Waiting.State, v.LastError = score.Stale, "HTTP 404" }, explain.PodStale, "nothing new of its queue: HTTP 404"},
		{"gone", func(v *pool.View) { v.Departed, v.State.Excluded = true, score.NotInPool }, explain.PodGone, "left the pool, and its requests go on"},
		{"unknown", func(v *pool.View) { v.State = score.NewPod(v.State.Pod, v.State.Endpoint) }, explain.PodUnknown, "it has told nothing yet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(1)
			tc.change(&r.pods[0])
			r.second()
			if p := r.Snapshot().Pods[0]; p.State != tc.want || p.Reason != tc.reason {
				t.Errorf("%s: %q, want %s: %q", p.State, p.Reason, tc.want, tc.reason)
			}
		})
	}
}

// What is not known is null, and of what is too old the last value stays.
func TestUnknownIsNull(t *testing.T) {
	r := newRig(2)
	r.pods[0].State = score.NewPod(at(0).pod, at(0).endpoint)
	r.pods[1].State.Waiting = score.Reading{Value: 3, State: score.Stale, Age: 7 * time.Second, Source: score.SourceMetrics}
	r.second()
	s := r.Snapshot()
	p := s.Pods[0]
	if p.Queue.Waiting != nil || p.Load != nil || p.Health != nil || p.CachedBlocks != nil || p.AgeSeconds != nil || p.Adapters.Loaded != nil ||
		p.CacheHitRatio != nil || p.PicksShare != nil || p.TTFTP95 != nil || p.Stream != nil {
		t.Errorf("pod %+v", p)
	}
	if q := s.Pods[1].Queue; q.Waiting == nil || *q.Waiting != 3 || !q.Stale || *s.Pods[1].AgeSeconds != 7 {
		t.Errorf("queue %+v", q)
	}
	if w := s.Windows[0]; w.MatchRatio != nil || w.PickP50 != nil || w.TTFTP95 != nil {
		t.Errorf("window %+v", w)
	}
	if s.Index.EventsPerSecond != nil {
		t.Errorf("index %+v without streams", s.Index)
	}
}

// What happens to a fleet is told, once.
func TestEvents(t *testing.T) {
	r := newRig(2)
	events := func(change func()) string {
		before := len(r.Snapshot().Events)
		change()
		r.clock.pass(quiet)
		r.Look()
		r.second()
		var told []string
		s := r.Snapshot()
		for _, e := range s.Events[:len(s.Events)-before] {
			if e.Code != explain.EventVerdict {
				told = append(told, e.Code+" "+e.Pod)
			}
		}
		return strings.Join(told, ", ")
	}
	stream := func(change func(s *kvfeed.Stats)) func() {
		return func() { change(&r.pods[1].Streams[0]) }
	}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, ""},
		{func() { r.pods[0].State.Health.Value = .1 }, "pod-down pod-0000"},
		{func() { r.pods[0].State.Health.Value = .3 }, "pod-up pod-0000"},
		{func() { r.pods[0].State.Health = score.Read(0, score.SourceManual) }, "pod-drained pod-0000"},
		{func() { r.pods[0].State.Health = score.Read(1, score.SourceProbe) }, "pod-drained pod-0000"},
		{func() { r.pods[0].State.Waiting.Value = 25 }, "queue-full pod-0000"},
		{func() { r.pods[0].State.Waiting.Value = 0 }, ""},
		{func() { r.pods = append(r.pods, view(2)) }, "pod-joined pod-0002"},
		{func() { r.pods[2].Departed, r.pods[2].State.InFlight = true, 1 }, "pod-left pod-0002"},
		{func() { r.pods = r.pods[:2] }, ""},
		{func() { r.pods[0].ReportEpoch = 5 }, ""},
		{func() { r.pods[0].ReportEpoch = 6 }, "engine-restart pod-0000"},
		{func() { r.pods[1].Streams = []kvfeed.Stats{{Connected: true}} }, ""},
		{stream(func(s *kvfeed.Stats) { s.Gaps, s.Missed, s.Degraded = 1, 4, kvindex.Gapped }), "stream-degraded pod-0001, stream-gap pod-0001"},
		{stream(func(s *kvfeed.Stats) { s.Degraded = kvindex.Whole }), "stream-restored pod-0001"},
		{stream(func(s *kvfeed.Stats) { s.Connected = false }), "stream-lost pod-0001"},
		{stream(func(s *kvfeed.Stats) { s.Restarts = 1 }), "engine-restart pod-0001"},
		{func() { r.weights.Generation++ }, "weights-changed "},
		{func() { r.pods = nil }, "pod-left pod-0000, pod-left pod-0001"},
	} {
		got := events(step.change)
		if got != step.want && got != reversed(step.want) {
			t.Errorf("told %q, want %q", got, step.want)
		}
	}
}

func reversed(list string) string {
	a, b, _ := strings.Cut(list, ", ")
	return b + ", " + a
}

func TestEventsAreBounded(t *testing.T) {
	r := newRig(1)
	for i := range maxEvents + 50 {
		r.weights.Generation++
		r.clock.pass(quiet)
		r.Look()
		if n := len(r.Snapshot().Events); n != min(i+1, maxEvents) {
			t.Fatalf("%d events after %d changes", n, i+1)
		}
	}
}

// Both ways over the line count, in five minutes; a drain by hand does not.
func TestFlaps(t *testing.T) {
	r := newRig(1)
	health := func(h score.Reading) int {
		r.pods[0].State.Health = h
		r.second()
		return r.Snapshot().Pods[0].Flaps
	}
	probe := func(v float64) score.Reading { return score.Read(v, score.SourceProbe) }
	for i, step := range []struct {
		health score.Reading
		want   int
	}{
		{probe(1), 0},
		{probe(.3), 0},
		{probe(.2), 1},
		{probe(0), 1},
		{score.Reading{}, 1},
		{probe(.3), 2},
		{score.Read(0, score.SourceManual), 2},
		{probe(1), 2},
	} {
		if got := health(step.health); got != step.want {
			t.Errorf("step %d: %d crossings, want %d", i, got, step.want)
		}
	}
	for range 300 {
		r.second()
	}
	if got := r.Snapshot().Pods[0].Flaps; got != 0 {
		t.Errorf("%d crossings after 5 minutes", got)
	}
}

func rowOf(t *testing.T, text []byte) explain.Row {
	t.Helper()
	var l struct{ Decision explain.Row }
	if err := json.Unmarshal(text, &l); err != nil || !bytes.HasSuffix(text, []byte("\n")) {
		t.Fatalf("line %q: %v", text, err)
	}
	return l.Decision
}

// A row comes when a decision is taken and again when its request has ended, to
// those who were there.
func TestRowsComeTwice(t *testing.T) {
	r := newRig(2)
	r.Picked(entry(2, 0)) // nobody reads
	reader, _ := r.Subscribe()
	defer reader.Close()
	r.Completed(&picker.Pick{}, ended(time.Second, 10, 0), false)
	if lines := reader.Take(); len(lines) != 0 {
		t.Errorf("%d lines of a decision from before", len(lines))
	}
	r.Picked(entry(2, 1))
	r.Picked(entry(2, -1))
	r.Completed(&picker.Pick{}, ended(time.Second, 10, 0), false)
	<-reader.Ready()
	lines := reader.Take()
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range []struct{ state, picked, refused string }{
		{explain.OutcomePending, name(1), ""}, {explain.OutcomeDone, "", "saturated"}, {explain.OutcomeDone, name(1), ""},
	} {
		if row := rowOf(t, lines[i]); row.State != want.state || row.Picked != want.picked || row.Refused != want.refused {
			t.Errorf("line %d: %+v", i, row)
		}
	}
}

// A reader that does not read loses the oldest lines, which are counted, and holds
// up nobody; the others get all.
func TestSlowReaderLosesTheOldest(t *testing.T) {
	r := newRig(1)
	slow, _ := r.Subscribe()
	defer slow.Close()
	quick, _ := r.Subscribe()
	defer quick.Close()
	const rows = 10 * MaxLines
	got := 0
	for i := range rows {
		e := entry(1, 0)
		e.RequestID = fmt.Sprint(i)
		e.DecisionID[0], e.DecisionID[1] = byte(i), byte(i>>8)
		r.Picked(e)
		got += len(quick.Take())
	}
	r.second()
	if s := r.Snapshot(); got != rows || s.Router.Dropped != rows-MaxLines || s.Router.Streams != 2 {
		t.Errorf("the quick one got %d, %d were dropped for the slow one of %d readers", got, s.Router.Dropped, s.Router.Streams)
	}
	lines := slow.Take()
	if len(lines) != MaxLines || rowOf(t, lines[0]).RequestID != fmt.Sprint(rows-MaxLines) {
		t.Errorf("the slow one has %d lines, first %s", len(lines), lines[0])
	}
	if n := len(r.feed.pending); n > maxPending {
		t.Errorf("%d decisions are remembered", n)
	}
}

func TestReadersAreFew(t *testing.T) {
	r := newRig(1)
	var readers []*Reader
	for range MaxReaders {
		reader, ok := r.Subscribe()
		if !ok {
			t.Fatal("no reader")
		}
		readers = append(readers, reader)
	}
	if _, ok := r.Subscribe(); ok {
		t.Error("one more reader than there may be")
	}
	r.Picked(entry(1, 0))
	for _, reader := range readers {
		reader.Close()
	}
	if _, ok := r.Subscribe(); !ok || len(r.feed.pending) != 0 {
		t.Errorf("readers have gone, and %d decisions are still remembered", len(r.feed.pending))
	}
}

// BenchmarkDecision is what a decision and its end cost: to be compared with
// BenchmarkFingerprint/tokens=4096 of internal/prefix, of which it may be a tenth.
func BenchmarkDecision(b *testing.B) {
	e, p, o := entry(100, 50), &picker.Pick{}, ended(time.Second, 4096, 2048)
	r := newRig(100)
	decide := func() {
		r.Picked(e)
		r.Completed(p, o, false)
	}
	unit := func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
	}
	b.Run("fingerprint-unit", func(b *testing.B) {
		tokens, fps := make([]uint32, 4096), []uint64(nil)
		for b.Loop() {
			fps = prefix.Fingerprints(fps[:0], 1, tokens, 16)
		}
	})
	b.Run("readers=0", func(b *testing.B) {
		unit(b)
		for b.Loop() {
			decide()
		}
	})
	b.Run("readers=0/parallel", func(b *testing.B) {
		unit(b)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				decide()
			}
		})
	})
	for _, n := range []int{1, MaxReaders} {
		b.Run(fmt.Sprintf("readers=%d/unread", n), func(b *testing.B) {
			for range n {
				reader, _ := r.Subscribe()
				b.Cleanup(reader.Close)
			}
			unit(b)
			for b.Loop() {
				decide()
			}
		})
	}
}

// BenchmarkLook is what the fleet costs once a second.
func BenchmarkLook(b *testing.B) {
	for _, pods := range []int{100, 1000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			r := newRig(pods)
			var entries []*record.Entry
			for i := range pods {
				entries = append(entries, entryOf([]score.PodState{state(i)}, 0))
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, e := range entries {
					r.tally.picked(e)
				}
				r.second()
				r.Line()
			}
		})
	}
}
