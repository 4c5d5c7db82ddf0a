package extproc

import (
	"errors"
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

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

// write sends a message. The stream has taken all of it when it returns.
func (x *exchange) write(m *extproc.ProcessingResponse) error {
	x.send.Lock()
	defer x.send.Unlock()
	if x.over {
		return nil
	}
	_, x.over = m.GetResponse().(*extproc.ProcessingResponse_ImmediateResponse)
	if x.stream.SendMsg(m) != nil {
		return errSend // how the stream ended is told when receiving
	}
	return nil
}

var errSend = errors.New("the stream takes no messages any more")

// replies is the memory of the replies of which a stream sends many: pieces of a
// body.
type replies struct {
	message      extproc.ProcessingResponse
	requestBody  extproc.ProcessingResponse_RequestBody
	responseBody extproc.ProcessingResponse_ResponseBody
	body         extproc.BodyResponse
	common       extproc.CommonResponse
	mutation     extproc.BodyMutation
	kind         extproc.BodyMutation_StreamedResponse
	piece        extproc.StreamedBodyResponse
}

// writePiece sends one piece of a body, of the request's or of the response's.
func (x *exchange) writePiece(ofRequest bool, p []byte, last bool) error {
	o := &x.out
	if o.body.Response == nil {
		o.body.Response, o.common.BodyMutation = &o.common, &o.mutation
		o.mutation.Mutation, o.kind.StreamedResponse = &o.kind, &o.piece
		o.requestBody.RequestBody, o.responseBody.ResponseBody = &o.body, &o.body
	}
	o.message.Response = &o.responseBody
	if ofRequest {
		o.message.Response = &o.requestBody
	}
	o.piece.Body, o.piece.EndOfStream = p, last
	err := x.write(&o.message)
	o.piece.Body = nil
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
func (x *exchange) replyHead() error {
	common := &extproc.CommonResponse{}
	metadata := x.destination(common)
	return x.write(&extproc.ProcessingResponse{
		Response:        &extproc.ProcessingResponse_RequestHeaders{RequestHeaders: &extproc.HeadersResponse{Response: common}},
		DynamicMetadata: metadata,
	})
}

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
	common := &extproc.CommonResponse{}
	if x.served != "" {
		common.BodyMutation = &extproc.BodyMutation{Mutation: &extproc.BodyMutation_Body{Body: x.body.pieces[0]}}
	}
	metadata := x.destination(common)
	return x.write(&extproc.ProcessingResponse{
		Response:        &extproc.ProcessingResponse_RequestBody{RequestBody: &extproc.BodyResponse{Response: common}},
		DynamicMetadata: metadata,
	})
}

// destination puts the pick into a reply: as a header and, of the same value, as
// the dynamic metadata that it returns. The length follows a body that was changed.
func (x *exchange) destination(common *extproc.CommonResponse) *structpb.Struct {
	endpoints := x.pick.Endpoints()
	list := strings.Join(endpoints, ",")
	mutation := &extproc.HeaderMutation{
		SetHeaders:    make([]*core.HeaderValueOption, 0, 3),
		RemoveHeaders: x.head.remove,
	}
	mutation.SetHeaders = append(mutation.SetHeaders, header(steering.Destination, list))
	if !x.head.idIsSet {
		mutation.SetHeaders = append(mutation.SetHeaders, header(steering.RequestID, x.head.id))
	}
	if x.served != "" {
		mutation.SetHeaders = append(mutation.SetHeaders, header("accept-encoding", "identity")) // the name has to be found
		if x.head.length >= 0 {
			mutation.SetHeaders = append(mutation.SetHeaders, header("content-length", strconv.Itoa(len(x.body.pieces[0]))))
		}
	}
	common.HeaderMutation, common.ClearRouteCache = mutation, true

	fields := map[string]*structpb.Value{
		steering.Destination: structpb.NewStringValue(list),
		decisionKey:          structpb.NewStringValue(x.pick.DecisionID()),
	}
	if x.server.cfg.ScoresMetadata {
		scores := make(map[string]*structpb.Value, len(endpoints))
		for i, score := range x.pick.Scores() {
			scores[endpoints[i]] = structpb.NewNumberValue(score)
		}
		fields[steering.Scores] = structpb.NewStructValue(&structpb.Struct{Fields: scores})
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		namespaceLB: structpb.NewStructValue(&structpb.Struct{Fields: fields}),
	}}
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
