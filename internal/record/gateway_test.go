package record_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

func fronted(subset []string, unknown, fallbacks int) *record.Entry {
	e := plainEntry(1, 5)
	e.Gateway = &record.Gateway{Kind: "envoy", RequestBody: "FULL_DUPLEX_STREAMED", ResponseBody: "NONE"}
	e.Subset, e.SubsetUnknown, e.Fallbacks = subset, unknown, fallbacks
	return e
}

func addresses(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("10.1.0.%d:8000", i)
	}
	return out
}

func TestRecordKeepsWhatTheGatewaySaid(t *testing.T) {
	endpoints := func(e *record.Entry, n int) []string {
		out := []string{}
		for _, rank := range e.Decision.Order[1 : 1+n] {
			out = append(out, e.Inputs.Pods[rank.Pod].Endpoint)
		}
		return out
	}
	embedded, silent, refused := plainEntry(1, 5), plainEntry(1, 5), fronted([]string{}, 0, 3)
	silent.Fallbacks = 1
	refused.Picked = -1
	for _, tc := range []struct {
		name  string
		entry *record.Entry
		want  *explain.Gateway
	}{
		{"the embedded gateway", embedded, nil},
		{"no subset", fronted(nil, 0, 0), &explain.Gateway{Fallbacks: []string{}}},
		{"an empty subset", refused, &explain.Gateway{Subset: &explain.Subset{Addresses: []string{}}, Fallbacks: []string{}}},
		{"a subset with strangers, and fallbacks", fronted(addresses(3), 2, 2), &explain.Gateway{
			Subset: &explain.Subset{Count: 3, Unknown: 2, Addresses: addresses(3)}, Fallbacks: endpoints(embedded, 2),
		}},
		{"of many addresses the first few", fronted(addresses(200), 200, 0), &explain.Gateway{
			Subset: &explain.Subset{Count: 200, Unknown: 200, Addresses: addresses(8)}, Fallbacks: []string{},
		}},
		{"of long addresses the beginning", fronted([]string{strings.Repeat("a", 300)}, 1, 0), &explain.Gateway{
			Subset: &explain.Subset{Count: 1, Unknown: 1, Addresses: []string{strings.Repeat("a", 64)}}, Fallbacks: []string{},
		}},
		{"more fallbacks than pods", fronted(nil, 0, 9), &explain.Gateway{Fallbacks: endpoints(embedded, 4)}},
		{"a gateway that says nothing of itself", silent, &explain.Gateway{Fallbacks: endpoints(embedded, 1)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.entry.Gateway != nil {
				tc.want.Kind, tc.want.RequestBody, tc.want.ResponseBody = "envoy", "FULL_DUPLEX_STREAMED", "NONE"
			}
			ring := record.NewRing(record.RingConfig{})
			rec, _ := ring.Load(mustAppend(t, ring, tc.entry))
			if diff := cmp.Diff(tc.want, rec.Gateway); diff != "" {
				t.Errorf("gateway (-want +got):\n%s", diff)
			}
			if got := rec.Candidates[4].Endpoint; got != tc.entry.Inputs.Pods[4].Endpoint {
				t.Errorf("the last candidate is %s", got)
			}
		})
	}
}

// Nobody told how long the body took: that is not the same as no time.
func TestBodyWait(t *testing.T) {
	for _, tc := range []struct {
		wait time.Duration
		want *float64
	}{
		{0, nil},
		{-time.Second, nil},
		{1, new(1e-6)},
		{812500 * time.Microsecond, new(.8125)},
		{10 * time.Minute, new(600.0)},
		{math.MaxInt64, new((math.MaxUint32 * time.Microsecond).Seconds())},
	} {
		e := plainEntry(1, 1)
		e.Timings.BodyWait = tc.wait
		ring := record.NewRing(record.RingConfig{})
		if rec, _ := ring.Load(mustAppend(t, ring, e)); !cmp.Equal(rec.Timings.Body, tc.want) {
			t.Errorf("%v is recorded as %v", tc.wait, rec.Timings.Body)
		}
	}
}

func TestOutcomeBehindAGateway(t *testing.T) {
	full := record.Outcome{
		Status: 503, Error: "upstream-failed", ServedEndpoint: "10.9.9.9:8000", TTFT: -1, Duration: -1,
		PromptTokens: -1, CachedTokens: -1, OutputTokens: -1,
		Unknown: "response not sent to the picker", Sent: 300, Flags: "UF,URX", Details: strings.Repeat("d", 500),
		Attempts: []explain.Attempt{
			{Pod: "vllm-llama-8b-00001", Endpoint: "10.0.0.1:8000", Error: explain.MovedByGateway},
			{Pod: "vllm-llama-8b-00002", Endpoint: "10.0.0.2:8000"},
		},
	}
	want := explain.Outcome{
		State: explain.OutcomeUnknown, Detail: "response not sent to the picker", Status: 503, Error: "upstream-failed",
		ServedEndpoint: "10.9.9.9:8000", PredictedCached: new(100), Attempts: new(255), Flags: "UF,URX", CodeDetails: strings.Repeat("d", 120),
	}
	complete := func(t *testing.T, e *record.Entry) *explain.Record {
		ring := record.NewRing(record.RingConfig{})
		first, second := mustAppend(t, ring, e), mustAppend(t, ring, plainEntry(2, 3))
		if !ring.Complete(first, &full) {
			t.Fatal("Complete = false for a record in the ring")
		}
		if next, _ := ring.Load(second); next.RequestID != "request-000002" || next.Outcome.State != explain.OutcomePending {
			t.Errorf("the record behind it is %s, %s", next.RequestID, next.Outcome.State)
		}
		rec, _ := ring.Load(first)
		if v, _, _ := explain.Replay(rec); !v.Identical || len(rec.Candidates) != len(e.Inputs.Pods) {
			t.Errorf("replay: %s, %d candidates", v.Difference, len(rec.Candidates))
		}
		return rec
	}
	t.Run("all of it fits", func(t *testing.T) {
		rec := complete(t, fronted(addresses(3), 1, 2))
		if diff := cmp.Diff(want, rec.Outcome); diff != "" {
			t.Errorf("outcome (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(full.Attempts, rec.Attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
	t.Run("without a gateway in front its words are left out", func(t *testing.T) {
		plain := want
		plain.Flags, plain.CodeDetails = "", ""
		if diff := cmp.Diff(plain, complete(t, plainEntry(1, 3)).Outcome); diff != "" {
			t.Errorf("outcome (-want +got):\n%s", diff)
		}
	})
}
