package extproc

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/eppctl/eppctl/internal/steering"
)

// front plays Envoy's end of one stream, in a bubble.
type front struct {
	checker
	tb     testing.TB
	stream extproc.ExternalProcessor_ProcessClient
	cancel context.CancelFunc
	config *extproc.ProtocolConfiguration // for the first message
	every  *core.Metadata                 // stands on each message
	watch  func()                         // sees the inbox before it is read

	mu    sync.Mutex
	inbox []*reply
	err   error // with which the stream ended
	wg    sync.WaitGroup
}

// open begins an exchange in the given modes.
func (s *site) open(tb testing.TB, request, response mode) *front {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &front{
		checker: newChecker(request, response), tb: tb, cancel: cancel,
		config: &extproc.ProtocolConfiguration{RequestBodyMode: request, ResponseBodyMode: response},
	}
	var err error
	if f.stream, err = extproc.NewExternalProcessorClient(s.conn).Process(ctx); err != nil {
		tb.Fatal(err)
	}
	f.wg.Go(f.receive)
	tb.Cleanup(func() {
		cancel()
		f.wg.Wait()
	})
	return f
}

func (f *front) receive() {
	for {
		r, err := f.stream.Recv()
		f.mu.Lock()
		if err != nil {
			f.err = err
			f.mu.Unlock()
			return
		}
		f.inbox = append(f.inbox, r)
		f.mu.Unlock()
	}
}

// send sends messages without waiting for answers, as Envoy does, and takes what
// is answered to them.
func (f *front) send(ms ...*message) *front {
	f.tb.Helper()
	f.push(ms...)
	f.take()
	f.due()
	f.report()
	return f
}

// push sends messages and lets the picker take its time.
func (f *front) push(ms ...*message) {
	f.tb.Helper()
	for _, m := range ms {
		if f.config != nil || f.every != nil {
			m = proto.CloneOf(m)
		}
		if f.config != nil {
			m.ProtocolConfig, f.config = f.config, nil
		}
		if f.every != nil && m.MetadataContext == nil {
			m.MetadataContext = f.every
		}
		f.sent(m)
		if err := f.stream.Send(m); err != nil && !errors.Is(err, io.EOF) { // EOF: the picker has ended it
			f.tb.Fatal(err)
		}
	}
}

// take waits until nothing moves any more, and reads what came.
func (f *front) take() {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil {
		f.watch()
	}
	for _, r := range f.inbox {
		f.got(r)
	}
	f.inbox = nil
}

func (f *front) report() {
	f.tb.Helper()
	for _, fault := range f.faults {
		f.tb.Error(fault)
	}
	f.faults = nil
}

// done ends a stream as Envoy ends one that is complete: it is cancelled.
func (f *front) done() *front {
	f.tb.Helper()
	f.cancel()
	f.wg.Wait()
	f.take()
	f.report()
	return f
}

// leave ends a stream as Envoy does when the client goes away.
func (f *front) leave() {
	f.tb.Helper()
	if err := f.stream.CloseSend(); err != nil {
		f.tb.Fatal(err)
	}
	f.ends()
}

// leaveOrDone leaves while the picker has not ended the stream.
func (f *front) leaveOrDone() {
	f.tb.Helper()
	f.mu.Lock()
	ended := f.err != nil
	f.mu.Unlock()
	if ended {
		f.ends()
		return
	}
	f.done()
}

// ends waits for the picker to end the stream.
func (f *front) ends() error {
	f.tb.Helper()
	f.wg.Wait()
	f.take()
	f.closed(errors.Is(f.err, io.EOF))
	f.report()
	return f.err
}

// The messages of a gateway. Headers and trailers are names and values in turn.

func requestHeaders(eos bool, pairs ...string) *message {
	return &message{Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: headerMap(pairs), EndOfStream: eos}}}
}

func requestBody(text string, eos bool) *message {
	return &message{Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: []byte(text), EndOfStream: eos}}}
}

func requestTrailers(pairs ...string) *message {
	return &message{Request: &extproc.ProcessingRequest_RequestTrailers{RequestTrailers: &extproc.HttpTrailers{Trailers: headerMap(pairs)}}}
}

func responseHeaders(eos bool, pairs ...string) *message {
	return &message{Request: &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{Headers: headerMap(pairs), EndOfStream: eos}}}
}

func responseBody(text string, eos bool) *message {
	return &message{Request: &extproc.ProcessingRequest_ResponseBody{ResponseBody: &extproc.HttpBody{Body: []byte(text), EndOfStream: eos}}}
}

func responseTrailers(pairs ...string) *message {
	return &message{Request: &extproc.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extproc.HttpTrailers{Trailers: headerMap(pairs)}}}
}

func headerMap(pairs []string) *core.HeaderMap {
	m := &core.HeaderMap{}
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &core.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return m
}

// metadata is one value of dynamic metadata.
func metadata(namespace, key string, value any) *core.Metadata {
	s, err := structpb.NewStruct(map[string]any{key: value})
	if err != nil {
		panic(err)
	}
	return &core.Metadata{FilterMetadata: map[string]*structpb.Struct{namespace: s}}
}

// subset hints at the endpoints that are allowed.
func subset(value any) *core.Metadata { return metadata(namespaceSubset, steering.Subset, value) }

// with puts metadata on a message.
func with(m *message, metadata *core.Metadata) *message {
	m.MetadataContext = metadata
	return m
}

// told puts attributes on a message.
func told(m *message, attributes map[string]any) *message {
	s, err := structpb.NewStruct(attributes)
	if err != nil {
		panic(err)
	}
	m.Attributes = map[string]*structpb.Struct{attributesKey: s}
	return m
}

// from is the headers of a pod's answer, with what Envoy says of it.
func from(endpoint string, m *message) *message {
	return told(m, map[string]any{"upstream.address": endpoint, "response.code": 200})
}

const (
	chatPath = "/v1/chat/completions"
	chatBody = `{"model":"m","messages":[{"role":"user","content":"hellö"}],"seed":9007199254740993}`
)

// post is the headers of a chat request, with more of them behind.
func post(pairs ...string) *message {
	return requestHeaders(false, append([]string{":method", "POST", ":path", chatPath, ":authority", "llm", "content-type", "application/json"}, pairs...)...)
}

// get is a request without a body.
func get(pairs ...string) *message {
	return requestHeaders(true, append([]string{":method", "GET", ":path", "/v1/models", ":authority", "llm"}, pairs...)...)
}

const (
	jsonAnswer = `{"id":"1","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}}`
	sseAnswer  = "data: {\"model\":\"m\",\"choices\":[{}],\"usage\":null}\n\n" +
		"data: {\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\n" +
		"data: [DONE]\n\n"
)

// jsonHead and sseHead are the headers of answers of a pod.
func jsonHead(pairs ...string) *message {
	return responseHeaders(false, append([]string{":status", "200", "content-type", "application/json"}, pairs...)...)
}

func sseHead() *message {
	return responseHeaders(false, ":status", "200", "content-type", "text/event-stream")
}

// pieces are texts as body messages; last is what the last one's end of stream
// is.
func pieces(of func(string, bool) *message, last bool, texts ...string) []*message {
	out := make([]*message, len(texts))
	for i, text := range texts {
		out[i] = of(text, last && i == len(texts)-1)
	}
	return out
}

// cut cuts a text into pieces of n bytes.
func cut(text string, n int) []string {
	var out []string
	for len(text) > n {
		out, text = append(out, text[:n]), text[n:]
	}
	return append(out, text)
}
