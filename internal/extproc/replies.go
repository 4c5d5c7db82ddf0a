package extproc

import (
	"errors"
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/steering"
)

// maxPiece is the longest piece of a body that is sent, in bytes: gateways may
// set max_receive_message_length to 65,536, and a message has more in it than
// its body.
const maxPiece = 62_000

// The replies that say nothing but "go on".
var (
	emptyHeaders = &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extproc.HeadersResponse{},
	}}
	unchangedRequestBody = &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestBody{
		RequestBody: &extproc.BodyResponse{},
	}}
	unchangedResponseHeaders = &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseHeaders{
		ResponseHeaders: &extproc.HeadersResponse{},
	}}
	unchangedResponseBody = &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseBody{
		ResponseBody: &extproc.BodyResponse{},
	}}
)

// write sends a [*extproc.ProcessingResponse], or one that is [raw] or a [*piece].
// The stream has taken all of it when it returns.
func (x *exchange) write(m any) error {
	x.send.Lock()
	defer x.send.Unlock()
	if x.over {
		return nil
	}
	if r, ok := m.(*extproc.ProcessingResponse); ok {
		_, x.over = r.GetResponse().(*extproc.ProcessingResponse_ImmediateResponse)
	}
	if x.stream.SendMsg(m) != nil {
		return errSend // how the stream ended is told when receiving
	}
	return nil
}

var errSend = errors.New("the stream takes no messages any more")

// writePiece sends one piece of a body, of the request's or of the response's.
func (x *exchange) writePiece(ofRequest bool, p []byte, last bool) error {
	x.out = piece{fieldResponseBodyReply, p, last}
	if ofRequest {
		x.out.of = fieldRequestBodyReply
	}
	err := x.write(&x.out)
	x.out.text = nil
	return err
}

// writeBody sends text in pieces; last says that nothing follows, not even
// trailers.
func (x *exchange) writeBody(ofRequest bool, text []byte, last bool) error {
	for len(text) > maxPiece {
		if err := x.writePiece(ofRequest, text[:maxPiece], false); err != nil {
			return err
		}
		text = text[maxPiece:]
	}
	if len(text) == 0 && !last {
		return nil
	}
	return x.writePiece(ofRequest, text, last)
}

// replyHead answers the request's headers when there is no body to answer.
func (x *exchange) replyHead() error { return x.write(x.routed(fieldRequestHeadersReply, nil)) }

// replyAll answers headers and body in full duplex; last says that no trailers
// follow.
func (x *exchange) replyAll(last bool) error {
	if err := x.replyHead(); err != nil {
		return err
	}
	var text []byte
	if len(x.body.pieces) > 0 {
		text = x.body.pieces[0]
	}
	return x.writeBody(true, text, last)
}

// replyBuffered answers the whole body of a buffering gateway.
func (x *exchange) replyBuffered() error {
	var text []byte
	if x.served != "" {
		text = x.body.pieces[0]
	}
	return x.write(x.routed(fieldRequestBodyReply, text))
}

// routed is the reply with the pick: as a header and, of the same value, as dynamic
// metadata. Text is the body if that was changed.
func (x *exchange) routed(reply protowire.Number, text []byte) raw {
	endpoints := x.pick.Endpoints()
	list := strings.Join(endpoints, ",")
	b := x.appendHeaders(make(raw, 0, 512+len(text)), list)
	if text != nil {
		from := len(b)
		b = protowire.AppendBytes(protowire.AppendTag(b, fieldMutatedBody, protowire.BytesType), text)
		b = wrap(b, from, fieldBodyMutation, 0)
	}
	b = appendNumber(b, fieldClearRouteCache, 1)
	b = wrap(wrap(b, 0, fieldCommon, 0), 0, reply, 0)

	from := len(b)
	b = appendStruct(b, namespaceLB, func(b []byte) []byte {
		b = appendString(b, steering.Destination, list)
		b = appendString(b, decisionKey, x.pick.DecisionID())
		if !x.server.cfg.ScoresMetadata {
			return b
		}
		return appendStruct(b, steering.Scores, func(b []byte) []byte {
			for i, score := range x.pick.Scores() {
				b = appendFloat(b, endpoints[i], score)
			}
			return b
		})
	})
	return wrap(b, from, fieldDynamicMetadata, 0)
}

// appendHeaders adds the change of the request's headers to an empty reply. The
// length follows a body that was changed.
func (x *exchange) appendHeaders(b []byte, list string) []byte {
	b = appendHeader(b, steering.Destination, list)
	if !x.head.idIsSet {
		b = appendHeader(b, steering.RequestID, x.head.id)
	}
	if x.served != "" {
		b = appendHeader(b, "accept-encoding", "identity") // the name has to be found
		if x.head.length >= 0 {
			b = appendHeader(b, "content-length", strconv.Itoa(len(x.body.pieces[0])))
		}
	}
	for _, name := range x.head.remove {
		b = appendText(b, fieldRemoveHeaders, name)
	}
	return wrap(b, 0, fieldHeaderMutation, 0)
}

// decisionKey is the dynamic metadata by which the access log tells decisions
// apart: clients repeat request IDs.
const decisionKey = "x-eppctl-decision"

// header sets a header to one value. Envoy takes raw values only.
func header(name, value string) *core.HeaderValueOption {
	return &core.HeaderValueOption{
		Header:       &core.HeaderValue{Key: name, RawValue: []byte(value)},
		AppendAction: core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

// trailersReply lets trailers pass, without those that steer.
func trailersReply(ofRequest bool, trailers *core.HeaderMap) *extproc.ProcessingResponse {
	t := &extproc.TrailersResponse{}
	for _, v := range trailers.GetHeaders() {
		if isSteering(v.GetKey()) {
			if t.HeaderMutation == nil {
				t.HeaderMutation = &extproc.HeaderMutation{}
			}
			t.HeaderMutation.RemoveHeaders = append(t.HeaderMutation.RemoveHeaders, v.GetKey())
		}
	}
	if ofRequest {
		return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestTrailers{RequestTrailers: t}}
	}
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseTrailers{ResponseTrailers: t}}
}

// sendRefusal answers the client with an OpenAI error object.
func (x *exchange) sendRefusal(e *request.Error) error {
	x.server.counts.refused.Add(1)
	set := []*core.HeaderValueOption{header("content-type", "application/json")}
	x.send.Lock()
	id := x.head.id
	x.send.Unlock()
	if id != "" {
		set = append(set, header(steering.RequestID, id))
	}
	if dropped := picker.Dropped(e); dropped != "" {
		wait := (x.server.cfg.RetryAfter + time.Second - 1) / time.Second
		set = append(set, header(steering.Dropped, dropped), header("retry-after", strconv.Itoa(int(wait))))
	}
	return x.write(&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &extproc.ImmediateResponse{
			Status:  &types.HttpStatus{Code: types.StatusCode(e.Status)},
			Headers: &extproc.HeaderMutation{SetHeaders: set},
			Body:    request.ErrorBody(e),
			Details: "eppctl_" + e.Code,
		},
	}})
}
