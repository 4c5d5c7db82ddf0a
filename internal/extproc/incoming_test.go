package extproc

import (
	"bytes"
	"fmt"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

// wire are messages as they come, those of a whole exchange and odd ones.
func wire(tb testing.TB) [][]byte {
	tb.Helper()
	ms := append(fullExchange(), get(), sseHead(), requestTrailers("a", "b"), responseTrailers(), &message{ObservabilityMode: true}, &message{})
	var out [][]byte
	for _, m := range ms {
		for _, metadata := range []*core.Metadata{nil, {}, subset("10.0.0.1:8000")} {
			m = proto.CloneOf(m)
			m.MetadataContext = metadata
			data, err := proto.Marshal(m)
			if err != nil {
				tb.Fatal(err)
			}
			out = append(out, data)
		}
	}
	both := append(bytes.Clone(out[0]), out[3]...)
	invalid := bytes.Replace(out[0], []byte("x-request-id"), []byte("x-\xffequest-id"), 1)
	return append(out, both, invalid, out[0][:len(out[0])-1], []byte{0x22, 0x00}, []byte{0x22, 0x02, 0x0a, 0x00}, []byte{0x7a, 0x01, 0x41})
}

// FuzzIncoming: a message is what protobuf takes it for, and is damaged when
// protobuf says so. Empty metadata may be none.
func FuzzIncoming(f *testing.F) {
	for _, data := range wire(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want message
		wrong := proto.Unmarshal(data, &want)
		got := &incoming{}
		given := bytes.Clone(data)
		if err := got.read(given); (err == nil) != (wrong == nil) {
			t.Fatalf("%v, protobuf says %v", err, wrong)
		}
		if wrong != nil {
			return
		}
		for i := range given {
			given[i] = 'x' // the memory is used again
		}
		if got.MetadataContext == nil && proto.Size(want.MetadataContext) == 0 {
			want.MetadataContext = nil
		}
		if !proto.Equal(&got.ProcessingRequest, &want) {
			t.Errorf("read %v\nwant %v", &got.ProcessingRequest, &want)
		}
		got.Reset()
		if left := fmt.Sprint(&got.headers, &got.body); proto.Size(&got.ProcessingRequest) > 0 || left != " " {
			t.Errorf("%v and %q are held after a reset", &got.ProcessingRequest, left)
		}
	})
}

// TestAllocationsOfReading: names and values of headers take no memory each, and
// neither do the levels of a body.
func TestAllocationsOfReading(t *testing.T) {
	var m incoming
	for _, tt := range []struct {
		name string
		m    *message
		most float64
	}{
		{"headers", post("accept", "*/*", "user-agent", "bench", "content-length", "1024", "x-request-id", "my-id"), 5},
		{"body", requestBody(kilobyte, true), 1},
		{"the end of a body", requestBody("", true), 0},
		{"headers of an answer, with attributes", from(podAddress(0), jsonHead("content-length", "1024")), 18},
	} {
		tt.m.MetadataContext = &core.Metadata{}
		data, err := proto.Marshal(tt.m)
		if err != nil {
			t.Fatal(err)
		}
		n := testing.AllocsPerRun(100, func() {
			if err := m.read(data); err != nil {
				t.Error(err)
			}
		})
		if n > tt.most {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, n, tt.most)
		}
	}
}

// BenchmarkRead is what the messages of a whole exchange take.
func BenchmarkRead(b *testing.B) {
	var all [][]byte
	for _, m := range fullExchange() {
		m.MetadataContext = &core.Metadata{}
		data, err := proto.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, data)
	}
	b.Run("incoming", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var m incoming
			for _, data := range all {
				_ = m.read(data)
			}
		}
	})
	b.Run("protobuf", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var m message
			for _, data := range all {
				_ = proto.Unmarshal(data, &m)
			}
		}
	})
}
