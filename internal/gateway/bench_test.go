package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// What the gateway adds to a request on loopback: compare via=gateway with
// via=none, the same request sent to the pod itself.
func BenchmarkExchange(b *testing.B) {
	var events strings.Builder
	for range 200 {
		events.WriteString(`data: {"id":"cmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" token"}}]}` + "\n\n")
	}
	events.WriteString(`data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":200}}` + "\n\ndata: [DONE]\n\n")
	stream := events.String()
	pod := newPod(b, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set(contentType, "text/event-stream")
		io.WriteString(w, stream)
	})
	s := newSite(b, nil, pod)
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("some words ", 1500) + `"}]}`
	for _, via := range []struct{ name, url string }{{"none", "http://" + pod}, {"gateway", s.server.URL}} {
		b.Run("via="+via.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				res, err := s.client.Post(via.url+chatPath, "application/json", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, res.Body); err != nil || n != int64(len(stream)) {
					b.Fatalf("%d bytes, %v", n, err)
				}
				res.Body.Close()
				if via.name == "gateway" {
					<-s.ended
				}
			}
		})
	}
}
