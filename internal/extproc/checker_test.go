package extproc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/eppctl/eppctl/internal/steering"
)

type (
	message = extproc.ProcessingRequest
	reply   = extproc.ProcessingResponse
)

// checker holds a conversation against what Envoy 1.40 demands of an external
// processor: every reply by itself, and at each point that none is missing. It
// is told of messages in the order in which they are sent and received, and
// stops looking once the gateway itself has broken the rules.
type checker struct {
	request, response side
	immediate         *extproc.ImmediateResponse
	metadata          *structpb.Struct // that the picker gave
	sequence          []string         // of the replies
	broken            bool             // the gateway broke the rules
	faults            []string
}

// side is a request or a response: what the gateway has sent of it and what of
// it was answered.
type side struct {
	mode mode
	void bool // no answer is due any more

	headers, ended, trailers bool // were sent; ended counts trailers too
	atOnce                   bool // the headers were all
	pieces                   [][]byte
	length                   string // as the headers had it

	headersDone, piecesDone, trailersDone int // answered
	eos                                   bool

	fields, trailing fields // as they go on
	body             []byte // as it goes on
}

func newChecker(request, response mode) checker {
	return checker{request: side{mode: request}, response: side{mode: response}}
}

func (c *checker) fault(format string, args ...any) {
	if !c.broken {
		c.faults = append(c.faults, fmt.Sprintf(format, args...)+", after "+strings.Join(c.sequence, ", "))
	}
}

// sent notes a message of the gateway.
func (c *checker) sent(m *message) {
	if c.immediate != nil {
		return // it was on its way
	}
	legal := !m.GetObservabilityMode()
	switch r := m.GetRequest().(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		legal = legal && !c.request.headers && !c.response.headers
		c.request.begin(r.RequestHeaders)
	case *extproc.ProcessingRequest_RequestBody:
		legal = c.request.piece(r.RequestBody) && legal && (!c.response.headers || c.request.mode == streamed)
	case *extproc.ProcessingRequest_RequestTrailers:
		legal = c.request.tail(r.RequestTrailers) && legal && (!c.response.headers || c.request.mode == streamed)
	case *extproc.ProcessingRequest_ResponseHeaders:
		legal = legal && !c.response.headers
		c.response.begin(r.ResponseHeaders)
		c.request.void = c.request.void || !c.request.ended // a local reply
	case *extproc.ProcessingRequest_ResponseBody:
		legal = c.response.piece(r.ResponseBody) && legal
	case *extproc.ProcessingRequest_ResponseTrailers:
		legal = c.response.tail(r.ResponseTrailers) && legal
	}
	c.broken = c.broken || !legal
}

func (s *side) begin(h *extproc.HttpHeaders) {
	s.headers, s.ended, s.atOnce = true, h.GetEndOfStream(), h.GetEndOfStream()
	s.fields = fieldsOf(h.GetHeaders())
	s.length = s.fields.get("content-length")
}

func (s *side) piece(b *extproc.HttpBody) (legal bool) {
	legal = s.headers && !s.ended && s.mode != none
	if s.mode == buffered || s.mode == bufferedPartial {
		legal = legal && len(s.pieces) == 0
	}
	s.ended = b.GetEndOfStream()
	s.pieces = append(s.pieces, b.GetBody())
	if length, err := strconv.Atoi(s.length); err == nil && len(slices.Concat(s.pieces...)) > length {
		return false
	}
	return legal
}

func (s *side) tail(t *extproc.HttpTrailers) (legal bool) {
	legal = s.headers && !s.ended
	s.ended, s.trailers = true, true
	s.trailing = fieldsOf(t.GetTrailers())
	return legal
}

// got judges a reply.
func (c *checker) got(r *reply) {
	c.sequence = append(c.sequence, describe(r))
	if n := proto.Size(r); n > 65_536-64 {
		c.fault("a reply of %d bytes", n)
	}
	if c.immediate != nil {
		c.fault("a reply after an immediate response")
	}
	if r.GetModeOverride() != nil || r.GetOverrideMessageTimeout() != nil {
		c.fault("an override")
	}
	if r.GetDynamicMetadata() != nil {
		c.metadata = r.GetDynamicMetadata()
	}
	switch v := r.GetResponse().(type) {
	case *extproc.ProcessingResponse_RequestHeaders:
		c.head(&c.request, v.RequestHeaders.GetResponse())
	case *extproc.ProcessingResponse_ResponseHeaders:
		c.head(&c.response, v.ResponseHeaders.GetResponse())
	case *extproc.ProcessingResponse_RequestBody:
		c.piece(&c.request, v.RequestBody.GetResponse())
	case *extproc.ProcessingResponse_ResponseBody:
		c.piece(&c.response, v.ResponseBody.GetResponse())
	case *extproc.ProcessingResponse_RequestTrailers:
		c.tail(&c.request, v.RequestTrailers.GetHeaderMutation())
	case *extproc.ProcessingResponse_ResponseTrailers:
		c.tail(&c.response, v.ResponseTrailers.GetHeaderMutation())
	case *extproc.ProcessingResponse_ImmediateResponse:
		if c.response.headers {
			c.fault("an immediate response after the response's headers")
		}
		c.immediate = v.ImmediateResponse
		c.mutate(fields{}, c.immediate.GetHeaders())
	default:
		c.fault("an empty reply")
	}
}

func (c *checker) head(s *side, r *extproc.CommonResponse) {
	switch {
	case !s.headers:
		c.fault("a header reply without headers")
	case s.headersDone > 0:
		c.fault("a second header reply")
	case s == &c.request && s.mode == fullDuplex && !s.ended:
		c.fault("a header reply before the end of the body")
	case r.GetStatus() != extproc.CommonResponse_CONTINUE, r.GetBodyMutation() != nil, r.GetTrailers() != nil:
		c.fault("a header reply with more than headers")
	}
	s.headersDone++
	c.mutate(s.fields, r.GetHeaderMutation())
}

func (c *checker) piece(s *side, r *extproc.CommonResponse) {
	c.mutate(s.fields, r.GetHeaderMutation())
	p, isStreamed := r.GetBodyMutation().GetMutation().(*extproc.BodyMutation_StreamedResponse)
	if isStreamed != (s.mode == fullDuplex) {
		c.fault("a body reply %T that does not fit %v", r.GetBodyMutation().GetMutation(), s.mode)
		return
	}
	if s.headersDone != 1 || s.trailersDone > 0 {
		c.fault("a body reply out of order")
	}
	if !isStreamed {
		c.whole(s, r)
		return
	}
	text := p.StreamedResponse.GetBody()
	if len(text) > 62_000 {
		c.fault("a piece of %d bytes", len(text))
	}
	if s.eos || len(s.pieces) == 0 {
		c.fault("a piece after the end")
	}
	if s.eos = p.StreamedResponse.GetEndOfStream(); s.eos && (s.trailers || !s.ended) {
		c.fault("an end of the body that is none")
	}
	s.body = append(s.body, text...)
}

// whole judges the reply to one piece in the modes that have one for each.
func (c *checker) whole(s *side, r *extproc.CommonResponse) {
	if s.piecesDone++; s.piecesDone > len(s.pieces) {
		c.fault("more body replies than pieces")
		return
	}
	text := s.pieces[s.piecesDone-1]
	switch m := r.GetBodyMutation().GetMutation().(type) {
	case *extproc.BodyMutation_Body:
		text = m.Body
	case *extproc.BodyMutation_ClearBody:
		text = nil
	}
	if s.mode == bufferedPartial && len(text) != len(s.pieces[s.piecesDone-1]) && !s.ended && s.fields.get("content-length") != "" {
		c.fault("another length, though more of the body follows")
	}
	s.body = append(s.body, text...)
}

func (c *checker) tail(s *side, m *extproc.HeaderMutation) {
	switch {
	case !s.trailers:
		c.fault("a trailers reply without trailers")
	case s.trailersDone > 0:
		c.fault("a second trailers reply")
	case s.headersDone != 1, s.eos:
		c.fault("a trailers reply out of order")
	}
	s.trailersDone++
	c.mutate(s.trailing, m)
}

// mutate checks and applies a header mutation as Envoy does: removals first.
func (c *checker) mutate(f fields, m *extproc.HeaderMutation) {
	for _, name := range m.GetRemoveHeaders() {
		delete(f, strings.ToLower(name))
	}
	for _, h := range m.GetSetHeaders() {
		name, value := h.GetHeader().GetKey(), string(h.GetHeader().GetRawValue())
		if h.GetHeader().GetValue() != "" {
			c.fault("%s is set as value, which Envoy drops", name)
		}
		if h.GetAppendAction() != core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			c.fault("%s is appended", name)
		}
		if name == "" || strings.ToLower(name) != name || strings.HasPrefix(name, ":") || strings.HasPrefix(name, "x-envoy-") ||
			strings.ContainsFunc(name+value, func(r rune) bool { return r < ' ' || r > '~' }) {
			c.fault("header %q is not for Envoy to set to %q", name, value)
		}
		if f != nil {
			f[name] = []string{value}
		}
	}
}

// due reports the replies that are missing when the picker has nothing more to
// say to what was sent so far.
func (c *checker) due() {
	if c.immediate != nil {
		return
	}
	c.owed("request", &c.request)
	c.owed("response", &c.response)
}

func (c *checker) owed(name string, s *side) {
	if s.void || !s.headers {
		return
	}
	late := s.mode == fullDuplex && s == &c.request && !s.ended // the reply waits
	if !late && s.headersDone != 1 {
		c.fault("the %s's headers are not answered", name)
	}
	if s.trailers && s.trailersDone != 1 {
		c.fault("the %s's trailers are not answered", name)
	}
	byPiece := s.ended && !s.atOnce && !s.trailers
	switch {
	case s.mode != fullDuplex:
		if s.mode != none && s.piecesDone != len(s.pieces) {
			c.fault("%d of the %s's %d pieces are answered", s.piecesDone, name, len(s.pieces))
		}
	case byPiece && !s.eos:
		c.fault("the %s's body does not end", name)
	case s.ended && !s.atOnce && c.metadata == nil && s == &c.request:
		c.fault("no destination")
	}
	in := strconv.Itoa(len(slices.Concat(s.pieces...)))
	if length := s.fields.get("content-length"); s.ended && !s.atOnce && s.mode != none && length != "" &&
		(s.length == "" || s.length == in) && length != strconv.Itoa(len(s.body)) {
		c.fault("content-length %s of the %s, whose body has %d bytes", length, name, len(s.body))
	}
}

// closed judges the end of the stream from the picker's side: ok says that it
// ended without an error.
func (c *checker) closed(ok bool) {
	r := &c.request
	waits := r.mode == fullDuplex || (r.mode == buffered || r.mode == bufferedPartial) && r.piecesDone == 0
	if ok && c.immediate == nil && r.headers && !r.void && (waits && !r.ended || r.headersDone == 0) {
		c.fault("the stream ended well before the request was answered")
	}
	if ok {
		c.due()
	}
}

// destination is where the picker sends the request, and whether header and
// metadata say the same.
func (c *checker) destination() (string, bool) {
	told := c.metadata.GetFields()[namespaceLB].GetStructValue().GetFields()[steering.Destination].GetStringValue()
	return told, told != "" && c.request.fields.get(steering.Destination) == told
}

// fields are headers by their names in lower case.
type fields map[string][]string

func fieldsOf(m *core.HeaderMap) fields {
	f := fields{}
	for _, h := range m.GetHeaders() {
		name := strings.ToLower(h.GetKey())
		f[name] = append(f[name], text(h))
	}
	return f
}

func (f fields) get(name string) string { return strings.Join(f[name], "|") }

// describe is a reply in a word or two.
func describe(r *reply) string {
	piece := func(of string, b *extproc.BodyResponse) string {
		switch m := b.GetResponse().GetBodyMutation().GetMutation().(type) {
		case *extproc.BodyMutation_StreamedResponse:
			if m.StreamedResponse.GetEndOfStream() {
				return fmt.Sprintf("%s_body %d eos", of, len(m.StreamedResponse.GetBody()))
			}
			return fmt.Sprintf("%s_body %d", of, len(m.StreamedResponse.GetBody()))
		case *extproc.BodyMutation_Body:
			return fmt.Sprintf("%s_body =%d", of, len(m.Body))
		case *extproc.BodyMutation_ClearBody:
			return of + "_body =0"
		}
		return of + "_body"
	}
	switch v := r.GetResponse().(type) {
	case *extproc.ProcessingResponse_RequestHeaders:
		return "request_headers"
	case *extproc.ProcessingResponse_ResponseHeaders:
		return "response_headers"
	case *extproc.ProcessingResponse_RequestBody:
		return piece("request", v.RequestBody)
	case *extproc.ProcessingResponse_ResponseBody:
		return piece("response", v.ResponseBody)
	case *extproc.ProcessingResponse_RequestTrailers:
		return "request_trailers"
	case *extproc.ProcessingResponse_ResponseTrailers:
		return "response_trailers"
	case *extproc.ProcessingResponse_ImmediateResponse:
		return fmt.Sprintf("immediate %d", v.ImmediateResponse.GetStatus().GetCode())
	}
	return "nothing"
}
