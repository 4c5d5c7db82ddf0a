package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/steering"
)

// options are those of a short run.
func options(address string) *loadOptions {
	return &loadOptions{
		address: address, pid: os.Getpid(), workers: 2, streams: 3, requests: 20, warmup: 1, piece: 1 << 20,
		work: workload{model: "m", bytes: 150_000, prompts: 2}, response: "json", timeout: time.Minute,
	}
}

func TestMeasure(t *testing.T) {
	o := options(serve(t, newNoop("10.0.0.1:8000")))
	r, err := measure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	bytes := int64(20 * (150_000 + len(o.work.answer())))
	if r.Errors != 0 || r.Endpoints != 1 || r.BytesSent != bytes || r.BytesReceived != bytes {
		t.Errorf("result %+v, want 20 requests of %d bytes in all to one endpoint", r, bytes)
	}
	if h, x := r.HeaderReply, r.Exchange; !(0 < h.P50 && h.P50 <= h.P99 && h.P99 <= h.Max) || !(h.P50 < x.P50) {
		t.Errorf("header reply %+v, whole exchange %+v: out of order", h, x)
	}
	if u := r.Picker; u.CPUMsPerRequest == nil || u.RSSBytes == nil || u.HeapBytes != nil {
		t.Errorf("picker %+v, want CPU and memory of the process and no heap without a page", u)
	}
}

// tape is a no-op picker that keeps what came.
type tape struct {
	*noop
	mu  sync.Mutex
	got []string
}

type taped struct {
	service.ExternalProcessor_ProcessServer
	tape *tape
}

func (p *tape) Process(s service.ExternalProcessor_ProcessServer) error {
	return p.noop.Process(&taped{s, p})
}

func (s *taped) Recv() (*service.ProcessingRequest, error) {
	m, err := s.ExternalProcessor_ProcessServer.Recv()
	if err != nil {
		return m, err
	}
	s.tape.mu.Lock()
	defer s.tape.mu.Unlock()
	text := strings.TrimPrefix(fmt.Sprintf("%T", m.GetRequest()), "*ext_procv3.ProcessingRequest_")
	for _, b := range []*service.HttpBody{m.GetRequestBody(), m.GetResponseBody()} {
		if b != nil {
			text += fmt.Sprintf(" %d end=%v", len(b.GetBody()), b.GetEndOfStream())
		}
	}
	for _, h := range []*service.HttpHeaders{m.GetRequestHeaders(), m.GetResponseHeaders()} {
		if h != nil {
			text += fmt.Sprintf(" %d", len(h.GetHeaders().GetHeaders()))
		}
	}
	if p := m.GetProtocolConfig(); p != nil {
		text += " " + p.GetRequestBodyMode().String()
	}
	if a := m.GetAttributes()[attributesKey]; a != nil {
		text += " " + a.GetFields()["upstream.address"].GetStringValue()
	}
	if m.GetMetadataContext() == nil {
		text += " without metadata_context"
	}
	s.tape.got = append(s.tape.got, text)
	return m, nil
}

// The order is that of the real Envoy 1.40.
func TestMessagesAreEnvoys(t *testing.T) {
	for _, tc := range []struct {
		response string
		piece    size
		want     []string
	}{
		{"json", 1 << 20, []string{
			"RequestHeaders 12 FULL_DUPLEX_STREAMED", "RequestBody 150000 end=false", "RequestBody 0 end=true",
			"ResponseHeaders 6 10.0.0.1:8000", fmt.Sprintf("ResponseBody %d end=false", len(options("").work.answer())), "ResponseBody 0 end=true",
		}},
		{"none", 100_000, []string{
			"RequestHeaders 12 FULL_DUPLEX_STREAMED", "RequestBody 100000 end=false", "RequestBody 50000 end=false", "RequestBody 0 end=true",
		}},
	} {
		t.Run(tc.response, func(t *testing.T) {
			p := &tape{noop: newNoop("10.0.0.1:8000,10.0.0.2:8000")}
			o := options(serve(t, p))
			o.response, o.piece = tc.response, tc.piece
			l, err := newLoad(o)
			if err != nil {
				t.Fatal(err)
			}
			defer l.pickers.close()
			if err := l.waitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, p.got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// script is a picker that says what a test tells it, at the end of the body.
type script struct {
	service.UnimplementedExternalProcessorServer
	replies []*service.ProcessingResponse
}

func (p *script) Process(s service.ExternalProcessor_ProcessServer) error {
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		if !m.GetRequestBody().GetEndOfStream() {
			continue
		}
		for _, r := range p.replies {
			if err := s.Send(r); err != nil {
				return err
			}
		}
		return nil
	}
}

func bodyReply(text string, end bool) *service.ProcessingResponse {
	return &service.ProcessingResponse{Response: &service.ProcessingResponse_RequestBody{RequestBody: streamed([]byte(text), end)}}
}

func TestBadPickersAreErrors(t *testing.T) {
	headers := newNoop("10.0.0.1:8000").headers
	nowhere := newNoop("").headers
	refusal := &service.ProcessingResponse{Response: &service.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &service.ImmediateResponse{Body: []byte("busy")},
	}}
	for _, tc := range []struct {
		name    string
		replies []*service.ProcessingResponse
		want    string
	}{
		{"ends at once", nil, "the picker ended the stream"},
		{"refuses", []*service.ProcessingResponse{refusal}, "the picker answered by itself: status 0 busy"},
		{"body first", []*service.ProcessingResponse{bodyReply("{", false)}, "want the reply to the headers first"},
		{"no destination", []*service.ProcessingResponse{nowhere}, "no " + steering.Destination},
		{"changes the body", []*service.ProcessingResponse{headers, bodyReply("[", false)}, "request body: other bytes came back"},
		{"cuts the body", []*service.ProcessingResponse{headers, bodyReply(`{"`, true)}, "149998 bytes did not come back"},
		{"answers headers twice", []*service.ProcessingResponse{headers, headers}, "want a streamed piece"},
		{"picks a stranger", nil, "is no endpoint of the fleet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p service.ExternalProcessorServer = &script{replies: tc.replies}
			if strings.Contains(tc.name, "stranger") {
				p = newNoop("10.0.0.9:8000")
			}
			o := options(serve(t, p))
			l, err := newLoad(o)
			if err != nil {
				t.Fatal(err)
			}
			defer l.pickers.close()
			l.endpoints = map[string]bool{"10.0.0.1:8000": true}
			seen, err := l.run(t.Context(), 2)
			if err != nil || seen.errors != 2 || !strings.Contains(seen.first, tc.want) {
				t.Errorf("%v, %d errors, first %q; want 2 with %q", err, seen.errors, seen.first, tc.want)
			}
		})
	}
}

func TestHold(t *testing.T) {
	for _, tc := range []struct {
		name    string
		picker  func() service.ExternalProcessorServer
		refused int
		held    int64
	}{
		{"all", func() service.ExternalProcessorServer { return newNoop("10.0.0.1:8000") }, 0, 8 * 75_000},
		{"none", func() service.ExternalProcessorServer { return &noMore{noop: newNoop("10.0.0.1:8000")} }, 8, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := new(held)
			for patience := 200 * time.Millisecond; patience < 2*time.Minute; patience *= 4 { // as long as the machine needs
				o := options(serve(t, tc.picker()))
				o.hold, o.holdFor = 8, patience
				var err error
				if h, err = holdBodies(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				if h.Stalled == 0 && h.Refused == tc.refused {
					break
				}
			}
			if h.Refused != tc.refused || h.Stalled != 0 || h.HeldBytes != tc.held || h.Holding.RSSBytes == nil {
				t.Errorf("held %+v, want %d refused and %d bytes held", h, tc.refused, tc.held)
			}
		})
	}
}

// noMore refuses all requests but the first, which shows that it is ready.
type noMore struct {
	*noop
	once sync.Once
}

func (p *noMore) Process(s service.ExternalProcessor_ProcessServer) (err error) {
	err = fmt.Errorf("no more")
	p.once.Do(func() { err = p.noop.Process(s) })
	return err
}

func TestNoopAnswersTrailersLast(t *testing.T) {
	o := options(serve(t, newNoop("10.0.0.1:8000")))
	pickers, err := dial(o.address, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pickers.close()
	stream, err := pickers.of(0).Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*service.ProcessingRequest{
		requestHeaders(70_000),
		{Request: &service.ProcessingRequest_RequestBody{RequestBody: &service.HttpBody{Body: make([]byte, 70_000)}}},
		{Request: &service.ProcessingRequest_RequestTrailers{RequestTrailers: &service.HttpTrailers{}}},
	} {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for range 4 {
		r, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		text := strings.TrimPrefix(fmt.Sprintf("%T", r.GetResponse()), "*ext_procv3.ProcessingResponse_")
		if b := r.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse(); b != nil {
			text += fmt.Sprintf(" %d end=%v", len(b.GetBody()), b.GetEndOfStream())
		}
		got = append(got, text)
	}
	want := []string{"RequestHeaders", "RequestBody 62000 end=false", "RequestBody 8000 end=false", "RequestTrailers"}
	if !slices.Equal(got, want) {
		t.Errorf("replies %q, want %q", got, want)
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	o := &loadOptions{command: []string{"x"}, response: "sse", hold: -1, pid: 3}
	err := o.validate()
	for _, want := range []string{"needs --addr-file", "--pid", "--workers", "--streams", "--requests", "--hold", `got "sse"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q in it", err, want)
		}
	}
}
