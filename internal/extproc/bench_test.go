package extproc

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/request"
)

// kilobyte is a chat request of 1 KB.
var kilobyte = fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, strings.Repeat("words and ", 97))

// replay gives the same messages again and again. Their parts are shared, so
// that no memory is taken but the handler's own.
func replay(ms []*message) *fakeStream {
	i, end := 0, errors.New("canceled")
	stream := newFakeStream(nil, func(*reply) {})
	stream.shallow = func() (*message, error) {
		if i == len(ms) {
			i = 0
			return nil, end
		}
		i++
		return ms[i-1], nil
	}
	return stream
}

// fullExchange is a POST of 1 KB and its answer.
func fullExchange() []*message {
	ms := []*message{
		post("x-request-id", "my-id", "content-length", fmt.Sprint(len(kilobyte)), "accept", "*/*", "user-agent", "bench"),
		requestBody(kilobyte, false), requestBody("", true),
		from(podAddress(0), jsonHead()), responseBody(jsonAnswer, false), responseBody("", true),
	}
	ms[0].ProtocolConfig = &extproc.ProtocolConfiguration{RequestBodyMode: fullDuplex, ResponseBodyMode: fullDuplex}
	return ms
}

// BenchmarkExchange is a whole exchange but for gRPC and reading its messages: a
// request of 1 KB in full duplex and its answer.
func BenchmarkExchange(b *testing.B) {
	s := newSite(b, nil)
	b.Run("server", func(b *testing.B) {
		stream := replay(fullExchange())
		b.ReportAllocs()
		for b.Loop() {
			_ = s.Process(stream) // the end of the stream
		}
	})
	b.Run("picker-alone", func(b *testing.B) { // of which the picker takes
		parsed, err := request.Read("POST", chatPath, "", []byte(kilobyte), request.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		c := &picker.Call{ID: "my-id", Path: chatPath, Request: parsed, Arrival: time.Now()}
		b.ReportAllocs()
		for b.Loop() {
			k, err := s.picker.Pick(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			k.Done(picker.End{Status: 200})
		}
	})
}

// The handler's own memory, with reading the request, the decision, its record and
// writing the replies.
func TestAllocationsOfAnExchange(t *testing.T) {
	s := newSite(t, nil)
	stream := replay(fullExchange())
	_ = s.Process(stream)
	if n := testing.AllocsPerRun(200, func() { _ = s.Process(stream) }); n > maxAllocations {
		t.Errorf("%v allocations for a request of 1 KB and its answer, want at most %d", n, maxAllocations)
	}
	if stream.kept {
		t.Error("a message is held while the next one is waited for")
	}
	s.settled(t)
}

// They are 42, and more with the race detector.
const maxAllocations = 52
