package record_test

import (
	"fmt"
	"testing"

	"github.com/eppctl/eppctl/internal/record"
)

func BenchmarkAppend(b *testing.B) {
	for _, pods := range []int{8, 100, 1000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			ring := record.NewRing(record.RingConfig{Bytes: 16 << 20})
			e := plainEntry(1, pods)
			for ring.Stats().Evicted == 0 {
				ring.Append(e)
			}
			b.ReportAllocs()
			for b.Loop() {
				ring.Append(e)
			}
			st := ring.Stats()
			b.ReportMetric(float64(st.Bytes)/float64(st.Records), "bytes/record")
			b.ReportMetric(float64(st.Bytes)/float64(st.Records)/float64(pods), "bytes/candidate")
		})
	}
}

func BenchmarkAppendParallel(b *testing.B) {
	ring := record.NewRing(record.RingConfig{Bytes: 16 << 20})
	e := plainEntry(1, 100)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ring.Append(e)
		}
	})
}

// BenchmarkLoad is what one explained decision costs the picker.
func BenchmarkLoad(b *testing.B) {
	ring := record.NewRing(record.RingConfig{})
	h := ring.Append(plainEntry(1, 100))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := ring.Load(h); !ok {
			b.Fatal("the record has left")
		}
	}
}

// BenchmarkFind looks for an ID that is not there, record by record.
func BenchmarkFind(b *testing.B) {
	ring := record.NewRing(record.RingConfig{Bytes: 16 << 20})
	e := plainEntry(1, 8)
	for ring.Stats().Evicted == 0 {
		ring.Append(e)
	}
	store := record.NewStore(ring, nil)
	looked := 0
	for b.Loop() {
		found, err := store.Find(b.Context(), record.Query{ID: "nobody"})
		if err != nil || len(found.Records) > 0 {
			b.Fatal(found, err)
		}
		looked += found.Scanned
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(looked), "ns/record")
}
