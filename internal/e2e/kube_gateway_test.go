package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/eppctl/eppctl/internal/steering"
)

// A gateway asks a picker where each request is to go, and sends it there, as Envoy
// does. Tests of what the picker knows of a cluster need no more of Envoy than that.
type gateway struct {
	picker extproc.ExternalProcessorClient
	client *http.Client
}

func newGateway(t *testing.T, picker string) *gateway {
	t.Helper()
	conn, err := grpc.NewClient(picker, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &gateway{picker: extproc.NewExternalProcessorClient(conn), client: newClients(t).h1}
}

// A routed request is what a gateway knows of it.
type routed struct {
	*answer
	destination string // "" = the picker answered by itself
	body        []byte // that the pod is to get
}

// send sends a request where the picker says, and shows the picker the answer.
func (g *gateway) send(ctx context.Context, c *call) *routed {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, r := g.ask(ctx, c)
	if r.err != nil || r.destination == "" {
		return r
	}
	forwarded := *c
	forwarded.body = r.body
	req, err := forwarded.request(ctx, "http://"+r.destination, nil)
	if err != nil {
		r.err = err
		return r
	}
	res, err := g.client.Do(req)
	if r.answer = read(res, err); r.err == nil {
		r.err = tellAnswer(stream, r)
	}
	return r
}

// pick asks where a request is to go, and answers it in the place of the pod. The
// routed body is what the pod would have got.
func (g *gateway) pick(ctx context.Context, c *call) *routed {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, r := g.ask(ctx, c)
	if r.err != nil || r.destination == "" {
		return r
	}
	r.answer = &answer{
		status: http.StatusOK, header: http.Header{"Content-Type": {c.script.contentType()}}, body: bytes.Join(c.script.pieces(model), nil),
	}
	r.err = tellAnswer(stream, r)
	return r
}

type exchangeStream = grpc.BidiStreamingClient[extproc.ProcessingRequest, extproc.ProcessingResponse]

// ask shows the picker a request, and reads what becomes of it.
func (g *gateway) ask(ctx context.Context, c *call) (exchangeStream, *routed) {
	c.prepare()
	r := &routed{answer: &answer{}}
	stream, err := g.picker.Process(ctx)
	if err != nil {
		r.err = err
		return nil, r
	}
	fields := map[string]string{
		":method": c.method, ":path": c.path, ":scheme": "http", ":authority": "gateway.example.com",
		"content-type": "application/json", "content-length": strconv.Itoa(len(c.body)), "x-request-id": c.id,
	}
	head := &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: headerMap(fields)}},
		ProtocolConfig: &extproc.ProtocolConfiguration{
			RequestBodyMode: filter.ProcessingMode_FULL_DUPLEX_STREAMED, ResponseBodyMode: filter.ProcessingMode_FULL_DUPLEX_STREAMED,
		},
	}
	body := &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: c.body, EndOfStream: true}},
	}
	if r.err = sendAll(stream, head, body); r.err == nil {
		r.err = r.replies(stream)
	}
	return stream, r
}

// replies reads what the picker says to a request.
func (r *routed) replies(stream exchangeStream) error {
	for {
		reply, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("the picker ended the stream: %w", err)
		}
		if i := reply.GetImmediateResponse(); i != nil {
			r.status, r.answer.body = int(i.GetStatus().GetCode()), i.GetBody()
			return nil
		}
		for _, set := range reply.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
			if strings.EqualFold(set.GetHeader().GetKey(), steering.Destination) {
				r.destination = string(set.GetHeader().GetRawValue())
			}
		}
		piece := reply.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		r.body = append(r.body, piece.GetBody()...)
		if piece.GetEndOfStream() {
			return nil
		}
	}
}

// tellAnswer shows the picker what a pod answered, and reads what the client gets.
func tellAnswer(stream exchangeStream, r *routed) error {
	head := &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{Headers: headerMap(map[string]string{
			":status": strconv.Itoa(r.status), "content-type": r.header.Get("Content-Type"),
		})}},
		Attributes: map[string]*structpb.Struct{"envoy.filters.http.ext_proc": {Fields: map[string]*structpb.Value{
			"upstream.address": structpb.NewStringValue(r.destination),
		}}},
	}
	body := &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_ResponseBody{ResponseBody: &extproc.HttpBody{Body: r.answer.body, EndOfStream: true}},
	}
	if err := sendAll(stream, head, body); err != nil {
		return err
	}
	r.answer.body = nil
	for {
		reply, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("the picker ended the stream: %w", err)
		}
		piece := reply.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		r.answer.body = append(r.answer.body, piece.GetBody()...)
		if piece.GetEndOfStream() {
			return nil
		}
	}
}

// sendAll sends messages. A stream that the picker has ended says so at the next reply.
func sendAll(stream exchangeStream, messages ...*extproc.ProcessingRequest) error {
	for _, m := range messages {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

func headerMap(fields map[string]string) *core.HeaderMap {
	m := &core.HeaderMap{}
	for name, value := range fields {
		m.Headers = append(m.Headers, &core.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	return m
}
