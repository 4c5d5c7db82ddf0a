package answer

import (
	"bytes"
	"testing"
)

func BenchmarkWatchUsage(b *testing.B) {
	for name, end := range map[string]string{"without": "}", "null": `,"usage":null}`} {
		b.Run("usage="+name, func(b *testing.B) {
			piece := []byte(`data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" token"}}]` + end + "\n\n")
			u := NewUsageReader(EventStream)
			b.SetBytes(int64(len(piece)))
			b.ReportAllocs()
			for b.Loop() {
				u.Watch(piece)
			}
			if u.Found() != UnknownUsage {
				b.Fatal("found what is not there")
			}
		})
	}
}

func BenchmarkRename(b *testing.B) {
	piece := []byte(`data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1,"model":"org/base","choices":[{"index":0,"delta":{"content":" token"}}]}` + "\n\n")
	r := NewRenamer(EventStream, "org/base", "prod")
	out := make([]byte, 0, len(piece))
	b.SetBytes(int64(len(piece)))
	b.ReportAllocs()
	for b.Loop() {
		out = r.Append(out[:0], piece)
	}
	if !bytes.Contains(out, []byte(`"model":"prod"`)) {
		b.Fatalf("not renamed: %s", out)
	}
}
