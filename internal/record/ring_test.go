package record_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/heaptest"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

func done(status int) *record.Outcome {
	return &record.Outcome{
		Status: status, ServedEndpoint: "10.0.0.1:8000", TTFT: 120 * time.Millisecond, Duration: 2 * time.Second,
		PromptTokens: 4096, CachedTokens: 4080, OutputTokens: 0,
	}
}

func ids(records []*explain.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = r.RequestID
	}
	return out
}

func walk(r *record.Ring, q record.Query) (out []*explain.Record) {
	r.Walk(q, func(rec *explain.Record) bool {
		out = append(out, rec)
		return true
	})
	return out
}

func TestOldestLeaveFirstAndAreCounted(t *testing.T) {
	ring := record.NewRing(record.RingConfig{Bytes: 1})
	const n = 5000
	handles := make([]record.Handle, n)
	for i := range handles {
		handles[i] = mustAppend(t, ring, plainEntry(i, 8))
	}
	st := ring.Stats()
	if st.Records+int(st.Evicted) != n || st.Evicted == 0 || st.Skipped != 0 || st.Pending != st.Records {
		t.Errorf("%+v: want %d decisions, evicted and pending ones counted", st, n)
	}
	if st.Bytes > st.Capacity || st.Capacity != 256<<10 {
		t.Errorf("%d bytes of %d, want at most 256 KiB", st.Bytes, st.Capacity)
	}
	gone := int(st.Evicted)
	for i, h := range handles {
		rec, ok := ring.Load(h)
		if ok != (i >= gone) || ok && rec.RequestID != fmt.Sprintf("request-%06d", i) {
			t.Fatalf("Load(%d) = %v, %v; the first %d have left", i, rec, ok, gone)
		}
		if ring.Complete(h, done(200)) != ok {
			t.Fatalf("Complete(%d) = %v, want %v", i, !ok, ok)
		}
	}
	if got := len(walk(ring, record.Query{})); got != st.Records {
		t.Errorf("walked %d records of %d", got, st.Records)
	}
	first, last := start.Add(time.Duration(gone)*time.Second), start.Add((n-1)*time.Second)
	if !st.Oldest.Equal(first) || !st.Newest.Equal(last) || st.Span() != last.Sub(first) {
		t.Errorf("from %v to %v (%v), want %v to %v", st.Oldest, st.Newest, st.Span(), first, last)
	}
	if st := ring.Stats(); st.Pending != 0 {
		t.Errorf("%d pending after all were completed", st.Pending)
	}
}

// cases B7 and P5: of what a request carries, only what routing is explained by is kept.
func TestNoSecretsInARecord(t *testing.T) {
	ring := record.NewRing(record.RingConfig{Key: []byte("recordkey")})
	e := plainEntry(1, 2)
	e.Inputs.Request.Client = "client-secret"
	e.Inputs.Request.Headers = map[string][]string{"X-Tenant": {"header-secret"}}
	e.Inputs.Request.Tokens = []uint32{987654321}
	e.Inputs.Pods[0].Labels = map[string]string{"l": "label-secret"}
	e.Inputs.Pods[0].Adapters = []string{"fr", "adapter-secret"}
	rec, _ := ring.Load(mustAppend(t, ring, e))
	var line bytes.Buffer
	if err := record.Encode(&line, rec); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secret", "987654321", "recordkey", hex.EncodeToString([]byte("recordkey"))} {
		if strings.Contains(line.String(), secret) {
			t.Errorf("%q stands in %s", secret, &line)
		}
	}
	for _, plain := range e.Fingerprints {
		for _, spelled := range []string{fmt.Sprintf("%016x", plain), fmt.Sprintf("%016x", bits.ReverseBytes64(plain)), fmt.Sprint(plain)} {
			if strings.Contains(line.String(), spelled) {
				t.Fatalf("the plain fingerprint %s stands in %s", spelled, &line)
			}
		}
	}
	if s := fmt.Sprintf("%+v %#v", ring, ring); strings.Contains(s, "recordkey") || strings.Contains(s, fmt.Sprint([]byte("recordkey"))) {
		t.Errorf("the key shows when the ring is printed")
	}
}

func TestEmptyRing(t *testing.T) {
	ring := record.NewRing(record.RingConfig{})
	for _, h := range []record.Handle{0, 1, 1 << 16, 1<<64 - 1} {
		if _, ok := ring.Load(h); ok || ring.Complete(h, done(200)) {
			t.Errorf("handle %d names a record in an empty ring", h)
		}
	}
	if got := walk(ring, record.Query{}); got != nil {
		t.Errorf("walked %v", got)
	}
	if diff := cmp.Diff(record.Stats{Capacity: record.DefaultBytes}, ring.Stats()); diff != "" {
		t.Error(diff)
	}
}

func TestOutcomeJoinsItsRecord(t *testing.T) {
	attempts := []explain.Attempt{
		{Pod: "vllm-llama-8b-00001", Endpoint: "10.0.0.1:8000", Error: "connection refused"},
		{Pod: "new", Endpoint: "10.9.9.9:8000"},
	}
	for _, tc := range []struct {
		name     string
		give     record.Outcome
		want     explain.Outcome
		attempts []explain.Attempt
	}{
		{
			"all known", *done(200),
			explain.Outcome{
				Status: 200, ServedEndpoint: "10.0.0.1:8000", TTFTSeconds: new(.12), DurationSeconds: new(2.0),
				PromptTokens: new(4096), CachedTokens: new(4080), OutputTokens: new(0),
			},
			nil,
		},
		{
			"nothing known",
			record.Outcome{Error: "client-gone", TTFT: -1, Duration: -1, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1},
			explain.Outcome{Error: "client-gone"},
			nil,
		},
		{
			"fewer cached tokens than predicted",
			record.Outcome{Prediction: explain.PredictionRaced, TTFT: -1, Duration: -1, PromptTokens: 4096, CachedTokens: 64, OutputTokens: -1},
			explain.Outcome{Prediction: explain.PredictionRaced, PromptTokens: new(4096), CachedTokens: new(64)},
			nil,
		},
		{
			"a prediction of a kind that there is not",
			record.Outcome{Prediction: "good", TTFT: -1, Duration: -1, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1},
			explain.Outcome{},
			nil,
		},
		{
			"served by a pod that was no candidate, at the second attempt",
			record.Outcome{Status: 502, Error: "upstream-error", ServedEndpoint: "10.9.9.9:8000", TTFT: -1, Duration: -1, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1, Attempts: attempts},
			explain.Outcome{Status: 502, Error: "upstream-error", ServedEndpoint: "10.9.9.9:8000"},
			attempts,
		},
		{
			"texts that are too long are cut",
			record.Outcome{Error: strings.Repeat("e", 300), ServedEndpoint: strings.Repeat("s", 300), TTFT: -1, Duration: -1, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1, Attempts: slices.Repeat(attempts, 3)},
			explain.Outcome{Error: strings.Repeat("e", 64), ServedEndpoint: strings.Repeat("s", 56)},
			[]explain.Attempt{{Pod: "vllm-llama-8b-00001", Endpoint: "10.0.0.1:8000"}, {}, {Pod: "vllm-llama-8b-00001", Endpoint: "10.0.0.1:8000"}, {}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ring := record.NewRing(record.RingConfig{})
			h := mustAppend(t, ring, plainEntry(1, 3))
			if !ring.Complete(h, &record.Outcome{Status: 500, Error: "replaced by the later one"}) || !ring.Complete(h, &tc.give) {
				t.Fatal("Complete = false for a record in the ring")
			}
			rec, _ := ring.Load(h)
			tc.want.State, tc.want.PredictedCached = explain.OutcomeDone, new(100)
			if diff := cmp.Diff(tc.want, rec.Outcome); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.attempts, rec.Attempts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCandidatesTakeAtMost100Bytes(t *testing.T) {
	for _, pods := range []int{100, 1000} {
		ring := record.NewRing(record.RingConfig{Bytes: 4 << 20})
		for n := 0; ring.Stats().Evicted == 0; n++ {
			mustAppend(t, ring, plainEntry(n, pods))
		}
		st := ring.Stats()
		if per := float64(st.Bytes) / float64(st.Records*pods); per > 100 {
			t.Errorf("%d pods: %.1f bytes a candidate, names, header and waste included; want at most 100", pods, per)
		}
	}
}

func TestMemoryStaysBounded(t *testing.T) {
	const bound = 4 << 20
	before := heaptest.Live()
	ring := record.NewRing(record.RingConfig{Bytes: bound})
	for n := range 4000 {
		e := plainEntry(n, 50)
		e.Roster = uint64(n / 3) // the pool never rests,
		e.Inputs.Weights = e.Inputs.Weights.Clone()
		e.Inputs.Weights.Generation = uint64(n / 2) // nor do the weights
		mustAppend(t, ring, e)
		if st := ring.Stats(); st.Bytes > bound {
			t.Fatalf("after %d decisions %d bytes are in use, more than %d", n, st.Bytes, bound)
		}
	}
	grown := heaptest.Live() - before
	if limit := int64(bound + bound/8); grown > limit {
		t.Errorf("the heap grew by %d bytes, want at most %d", grown, limit)
	}
	if st := ring.Stats(); st.Evicted == 0 || st.Skipped != 0 {
		t.Errorf("%+v: want evictions and nothing skipped", st)
	}
	runtime.KeepAlive(ring)
}

func TestRostersAreKeptWhileReferredTo(t *testing.T) {
	ring := record.NewRing(record.RingConfig{Bytes: 1 << 20})
	for n := range 3000 {
		e := plainEntry(n, 4)
		e.Roster = uint64(n / 100)
		for i := range e.Inputs.Pods {
			e.Inputs.Pods[i].Pod = fmt.Sprintf("v%d-pod-%d", e.Roster, i)
		}
		mustAppend(t, ring, e)
	}
	for _, rec := range walk(ring, record.Query{}) {
		var n int
		_, _ = fmt.Sscanf(rec.RequestID, "request-%d", &n)
		if want := fmt.Sprintf("v%d-pod-3", n/100); rec.Candidates[3].Pod != want {
			t.Fatalf("%s names %q, want %q", rec.RequestID, rec.Candidates[3].Pod, want)
		}
	}
}

func TestEntriesThatCannotBeKept(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*record.Entry)
	}{
		{"no inputs", func(e *record.Entry) { e.Inputs = nil }},
		{"no decision", func(e *record.Entry) { e.Decision = nil }},
		{"results of other pods", func(e *record.Entry) { e.Decision.Results = e.Decision.Results[1:] }},
		{"a pick beyond the pods", func(e *record.Entry) { e.Picked = 2 }},
		{"more pods than a slab holds", func(e *record.Entry) { *e = *plainEntry(1, 2000) }},
		{"more pods than can be counted", func(e *record.Entry) {
			e.Inputs.Pods = make([]score.PodState, 1<<16)
			e.Decision.Results = make([]score.PodResult, 1<<16)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ring := record.NewRing(record.RingConfig{Bytes: 256 << 10})
			e := plainEntry(1, 2)
			tc.change(e)
			if h := ring.Append(e); h != 0 {
				t.Errorf("Append = %d, want 0", h)
			}
			if rec := ring.Render(e); rec != nil && e.Picked < 2 && len(e.Inputs.Pods) < 2000 {
				t.Errorf("Render = %v, want nil", rec)
			}
			if st := ring.Stats(); st.Skipped != 1 || st.Records != 0 {
				t.Errorf("%+v, want 1 skipped", st)
			}
		})
	}
	t.Run("details are left out before a record is", func(t *testing.T) {
		ring := record.NewRing(record.RingConfig{Bytes: 256 << 10})
		e := plainEntry(1, 600)
		for i := range e.Inputs.Pods {
			e.Inputs.Pods[i].Notes = &score.Notes{strings.Repeat("n", 300)}
		}
		rec, ok := ring.Load(ring.Append(e))
		if !ok || rec.Candidates[0].Cache.Detail != "" {
			t.Fatalf("Load = %v, %v; want the record without notes", rec, ok)
		}
		if v, _, _ := explain.Replay(rec); !v.Identical {
			t.Error(v.Difference)
		}
	})
}

// Writers, readers and the ring's wrap-around at once; run it with -race.
func TestConcurrentUse(t *testing.T) {
	ring := record.NewRing(record.RingConfig{Bytes: 512 << 10})
	store := record.NewStore(ring, nil)
	const writers, each = 4, 600
	entries := make([]*record.Entry, writers)
	for w := range entries {
		entries[w] = plainEntry(w, 8+w)
	}
	var wrong atomic.Int64
	inspect := func(rec *explain.Record) bool {
		if v, _, _ := explain.Replay(rec); !v.Identical || len(rec.Candidates) != 8+int(rec.Seed) {
			wrong.Add(1)
		}
		return true
	}
	var writing, reading sync.WaitGroup
	stop := make(chan struct{})
	for w, e := range entries {
		writing.Go(func() {
			for n := range each {
				h := ring.Append(e)
				if rec, ok := ring.Load(h); ok && n%16 == 0 {
					inspect(rec)
				}
				ring.Complete(h, done(200))
				ring.Complete(h-record.Handle(rand.IntN(1<<16)), done(w))
			}
		})
	}
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				found, _ := store.Find(t.Context(), record.Query{Limit: 20})
				for _, rec := range found.Records {
					inspect(rec)
				}
				ring.Walk(record.Query{ID: "nobody"}, inspect)
				ring.Stats()
			}
		}
	})
	writing.Wait()
	close(stop)
	reading.Wait()
	st := ring.Stats()
	if wrong.Load() > 0 || st.Records+int(st.Evicted+st.Skipped) != writers*each || st.Bytes > st.Capacity {
		t.Errorf("%d wrong records; %+v, want %d decisions in bounded memory", wrong.Load(), st, writers*each)
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	ring := record.NewRing(record.RingConfig{Bytes: 1 << 20})
	for _, pods := range []int{0, 8, 100} {
		e := plainEntry(1, pods)
		for ring.Append(e); ring.Stats().Evicted == 0; {
			ring.Append(e)
		}
		if n := testing.AllocsPerRun(300, func() { ring.Append(e) }); n != 0 {
			t.Errorf("%d pods: %v allocations", pods, n)
		}
	}
	behind := fronted(addresses(12), 3, 2)
	if n := testing.AllocsPerRun(300, func() { ring.Append(behind) }); n != 0 {
		t.Errorf("behind a gateway: %v allocations", n)
	}
	h := ring.Append(behind)
	o := done(200)
	o.Flags, o.Details = "UF,URX", "via_upstream"
	if n := testing.AllocsPerRun(100, func() { ring.Complete(h, o) }); n != 0 {
		t.Errorf("Complete: %v allocations", n)
	}
}
