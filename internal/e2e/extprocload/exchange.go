package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/steering"
)

// exchange is one HTTP request's stream to the picker.
type exchange struct {
	stream extproc.ExternalProcessor_ProcessClient
	call   *call

	destination string
	decided     time.Duration // from the end of the body to the header reply
	whole       time.Duration // from the first message to the last reply
	received    int64         // bytes of bodies
}

// call is what is the same for all exchanges of a prompt.
type call struct {
	body    []byte
	pieces  []*extproc.ProcessingRequest
	answer  []byte // nil: the response is not sent to the picker
	answers []*extproc.ProcessingRequest
}

// run sends one request as Envoy does, without waiting between messages, and
// checks the replies.
func (x *exchange) run(ctx context.Context, client extproc.ExternalProcessorClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // Envoy ends a complete exchange with a reset
	began := clock.Wall{}.Now()
	var err error
	if x.stream, err = client.Process(ctx); err != nil {
		return err
	}
	last := len(x.call.pieces) - 1
	if err := x.send(append([]*extproc.ProcessingRequest{requestHeaders(len(x.call.body))}, x.call.pieces[:last]...)...); err != nil {
		return err
	}
	ended := clock.Wall{}.Now()
	if err := x.send(x.call.pieces[last]); err != nil {
		return err
	}
	if err := x.headerReply(); err != nil {
		return err
	}
	x.decided = clock.Wall{}.Now().Sub(ended)
	err = x.bodyReplies(x.call.body, func(r *extproc.ProcessingResponse) *extproc.BodyResponse { return r.GetRequestBody() })
	if err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	if x.call.answer != nil {
		if err := x.response(); err != nil {
			return fmt.Errorf("response: %w", err)
		}
	}
	x.whole = clock.Wall{}.Now().Sub(began)
	return nil
}

// send sends messages. A stream that the picker has ended says so at the next
// reply.
func (x *exchange) send(messages ...*extproc.ProcessingRequest) error {
	for _, m := range messages {
		if err := x.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

func (x *exchange) reply() (*extproc.ProcessingResponse, error) {
	r, err := x.stream.Recv()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the picker ended the stream")
	}
	if err != nil {
		return nil, err
	}
	if i := r.GetImmediateResponse(); i != nil {
		return nil, fmt.Errorf("the picker answered by itself: status %d %.200s", i.GetStatus().GetCode(), i.GetBody())
	}
	return r, nil
}

func (x *exchange) headerReply() error {
	r, err := x.reply()
	if err != nil {
		return err
	}
	h := r.GetRequestHeaders()
	if h == nil {
		return fmt.Errorf("want the reply to the headers first, got %T", r.GetResponse())
	}
	for _, set := range h.GetResponse().GetHeaderMutation().GetSetHeaders() {
		if strings.EqualFold(set.GetHeader().GetKey(), steering.Destination) {
			x.destination = string(set.GetHeader().GetRawValue())
		}
	}
	if x.destination == "" {
		return fmt.Errorf("the header reply has no %s (in raw_value)", steering.Destination)
	}
	return nil
}

// bodyReplies takes the pieces of a body back until its end; they must be what
// was sent.
func (x *exchange) bodyReplies(want []byte, of func(*extproc.ProcessingResponse) *extproc.BodyResponse) error {
	for {
		r, err := x.reply()
		if err != nil {
			return err
		}
		piece := of(r).GetResponse().GetBodyMutation().GetStreamedResponse()
		if piece == nil {
			return fmt.Errorf("want a streamed piece, got %T", r.GetResponse())
		}
		if !bytes.HasPrefix(want, piece.GetBody()) {
			return fmt.Errorf("other bytes came back than were sent, at %d from the end", len(want))
		}
		want = want[len(piece.GetBody()):]
		x.received += int64(len(piece.GetBody()))
		if piece.GetEndOfStream() {
			break
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("%d bytes did not come back", len(want))
	}
	return nil
}

// response plays the answer of the pod that was chosen.
func (x *exchange) response() error {
	address, _, _ := strings.Cut(x.destination, ",")
	if err := x.send(append([]*extproc.ProcessingRequest{responseHeaders(address, len(x.call.answer))}, x.call.answers...)...); err != nil {
		return err
	}
	r, err := x.reply()
	if err != nil {
		return err
	}
	if r.GetResponseHeaders() == nil {
		return fmt.Errorf("want the reply to the response headers, got %T", r.GetResponse())
	}
	return x.bodyReplies(x.call.answer, func(r *extproc.ProcessingResponse) *extproc.BodyResponse { return r.GetResponseBody() })
}
