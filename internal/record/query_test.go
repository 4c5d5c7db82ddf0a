package record_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

// A query finds in the ring what it wants of the documents.
func TestQueriesOfBytesAndDocuments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ring := record.NewRing(record.RingConfig{})
		var docs []*explain.Record
		for range rapid.IntRange(1, 4).Draw(t, "decisions") {
			h := ring.Append(drawEntry(t))
			if h == 0 {
				continue
			}
			if rapid.Bool().Draw(t, "completed") {
				ring.Complete(h, &record.Outcome{
					Status: rapid.SampledFrom([]int{0, 200, 429, 503}).Draw(t, "status"), TTFT: -1, Duration: -1,
					CachedTokens:   rapid.IntRange(-1, 1<<20).Draw(t, "cached"),
					Unknown:        rapid.SampledFrom([]string{"", "nobody told"}).Draw(t, "unknown"),
					ServedEndpoint: rapid.SampledFrom([]string{"", "10.0.0.1:8000", "other:1"}).Draw(t, "served"),
				})
			}
			rec, _ := ring.Load(h)
			docs = append(docs, rec)
		}
		status, _ := record.ParseStatus(rapid.SampledFrom([]string{"", "2xx", "429", "5xx"}).Draw(t, "wanted status"))
		q := record.Query{
			Stale: rapid.Bool().Draw(t, "stale"), Status: status,
			Excluded:   rapid.SampledFrom([]string{"", "pod-0", "10.0.0.1:8000"}).Draw(t, "excluded pod"),
			CacheBelow: rapid.SampledFrom([]float64{0, .1, 1}).Draw(t, "cache below"),
			MinMargin:  rapid.SampledFrom([]float64{0, .01, .5}).Draw(t, "min margin"),
			Since:      start.Add(time.Duration(rapid.IntRange(0, 999).Draw(t, "since")) * time.Second),
		}
		if len(docs) > 0 && rapid.Bool().Draw(t, "by block") {
			if chain := rapid.SampledFrom(docs).Draw(t, "alike").Request.Chain; len(chain) > 0 {
				q.FirstBlock = chain[0]
			}
		}
		var found, want []*explain.Record
		ring.Walk(q, func(rec *explain.Record) bool { found = append(found, rec); return true })
		for _, rec := range slices.Backward(docs) {
			if q.Wants(rec) {
				want = append(want, rec)
			}
		}
		if !slices.EqualFunc(found, want, func(a, b *explain.Record) bool { return a.DecisionID == b.DecisionID }) {
			t.Fatalf("%+v: found %d in the ring, %d of the documents are wanted", q, len(found), len(want))
		}
	})
}

func TestParseStatus(t *testing.T) {
	for text, want := range map[string]record.Status{"": {}, "429": {From: 429, To: 429}, "5xx": {From: 500, To: 599}} {
		if got, err := record.ParseStatus(text); err != nil || got != want {
			t.Errorf("ParseStatus(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"5x", "5XX", "600", "99", "4290", "ok", "2xx,3xx", "-5"} {
		if got, err := record.ParseStatus(text); err == nil {
			t.Errorf("ParseStatus(%q) = %v, want an error", text, got)
		}
	}
}
