package extproc

import (
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/eppctl/eppctl/internal/answer"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/steering"
)

// answered is what was seen of the answer to a request.
type answered struct {
	seen     bool // its headers came
	complete bool // its end came
	local    bool // it is the gateway's own, no pod's
	bodiless bool // the gateway keeps the body to itself
	partial  bool // or may have kept the rest of it

	status int
	served string // the endpoint that gave it, "" when not told
	// The endpoint that was asked last, of an answer that is the gateway's own.
	unreached string
	attempts  int // 0 when not told
	flags     string
	details   string

	usage  *answer.UsageReader // nil when the answer can't hold any
	rename *answer.Renamer     // nil when the model's name needs no change
	buffer []byte              // of the renamer

	clientGone bool // the stream ended as it does when the client went away
	aborted    bool // it was ended from here, or takes no messages any more
	failed     bool // by a panic
}

// responseHeaders begin the answer.
func (x *exchange) responseHeaders(m *extproc.ProcessingRequest, h *extproc.HttpHeaders) error {
	a := &x.answer
	a.seen = true
	if x.progress.CompareAndSwap(gathering, overtaken) {
		x.timer.Reset(x.server.cfg.IdleTimeout)
		x.body.release()
	}
	a.hear(m)
	var fields responseFields
	fields.read(h.GetHeaders())
	a.status = fields.status
	if x.pick != nil {
		x.credit()
	}
	a.complete = h.GetEndOfStream()
	a.bodiless = !a.complete && x.modes.told && x.modes.response == none
	if !a.complete && !a.bodiless && x.head.method != "HEAD" {
		x.watch(&fields)
	}
	if err := x.write(x.responseHead(&fields)); err != nil {
		return err
	}
	x.settle()
	return nil
}

// credit gives the answer to the pod that served it.
func (x *exchange) credit() {
	a := &x.answer
	if a.local {
		x.server.counts.localReply.Add(1)
		if connectionFailed(a.details) {
			x.pick.Unreached(a.unreached, "the gateway could not connect")
		}
		return
	}
	if a.served == "" && x.server.cfg.Fallbacks == 0 {
		a.served = x.pick.Endpoint() // there was no choice
	}
	if a.served != "" {
		x.pick.ServedBy(a.served)
	}
	x.pick.Answered(a.status)
}

// responseFields are the headers of an answer that matter here.
type responseFields struct {
	status                      int
	contentType, coding, length string
	requestID                   string
	remove                      []string
}

func (f *responseFields) read(m *core.HeaderMap) {
	for _, v := range m.GetHeaders() {
		switch key := v.GetKey(); key {
		case ":status":
			f.status, _ = strconv.Atoi(text(v)) // 0, unknown, for what is none
		case "content-type":
			f.contentType = text(v)
		case "content-encoding":
			f.coding = joined(f.coding, text(v))
		case "content-length":
			f.length = text(v)
		case steering.RequestID:
			f.requestID = text(v)
		default:
			if isSteering(key) {
				f.remove = append(f.remove, key)
			}
		}
	}
}

// watch puts readers beside the answer's body.
func (x *exchange) watch(f *responseFields) {
	format := answer.FormatOf(f.contentType, f.coding)
	if format == answer.Opaque || f.length == "0" {
		return
	}
	a := &x.answer
	if a.status < 300 && !a.local {
		usage := answer.NewUsageReader(format)
		a.usage = &usage
	}
	if x.served != "" && !a.local {
		a.rename = answer.NewRenamer(format, x.served, x.asked)
	}
}

// responseHead answers the response's headers.
func (x *exchange) responseHead(f *responseFields) any {
	var b raw
	if x.head.id != "" && f.requestID != x.head.id {
		b = appendHeader(make(raw, 0, 128), steering.RequestID, x.head.id)
	}
	for _, name := range f.remove {
		b = appendText(b, fieldRemoveHeaders, name)
	}
	if x.answer.rename != nil && f.length != "" && x.modes.response != buffered {
		b = appendText(b, fieldRemoveHeaders, "content-length")
	}
	if len(b) == 0 {
		return unchangedResponseHeaders
	}
	b = wrap(b, 0, fieldHeaderMutation, 0)
	return raw(wrap(wrap(b, 0, fieldCommon, 0), 0, fieldResponseHeadersReply, 0))
}

// responseBody lets a piece of the answer pass.
func (x *exchange) responseBody(b *extproc.HttpBody) error {
	a, p := &x.answer, b.GetBody()
	if a.complete {
		x.server.counts.secondEnds.Add(1)
		return nil
	}
	a.seen, a.complete = true, b.GetEndOfStream()
	a.partial = !a.complete && x.modes.response == bufferedPartial
	if len(p) > 0 && x.pick != nil && !a.local {
		x.pick.FirstByte()
	}
	if a.usage != nil {
		a.usage.Watch(p)
	}
	if err := x.passOn(p, b.GetEndOfStream()); err != nil {
		return err
	}
	x.settle()
	return nil
}

// passOn answers a piece of the response in the form that its mode asks for.
func (x *exchange) passOn(p []byte, last bool) error {
	a := &x.answer
	if a.rename != nil {
		a.buffer = a.rename.Append(a.buffer[:0], p)
		if last || x.modes.response == buffered || x.modes.response == bufferedPartial {
			a.buffer = a.rename.Flush(a.buffer)
		}
		p = a.buffer
	}
	switch {
	case x.modes.response == fullDuplex:
		return x.writeBody(false, p, last)
	case a.rename == nil:
		return x.write(unchangedResponseBody)
	}
	common := &extproc.CommonResponse{BodyMutation: &extproc.BodyMutation{Mutation: &extproc.BodyMutation_Body{Body: p}}}
	if len(p) == 0 {
		common.BodyMutation.Mutation = &extproc.BodyMutation_ClearBody{ClearBody: true}
	}
	if x.modes.response == buffered {
		common.HeaderMutation = &extproc.HeaderMutation{SetHeaders: []*core.HeaderValueOption{header("content-length", strconv.Itoa(len(p)))}}
	}
	return x.write(&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ResponseBody{
		ResponseBody: &extproc.BodyResponse{Response: common},
	}})
}

// responseTrailers end the answer.
func (x *exchange) responseTrailers(t *extproc.HttpTrailers) error {
	a := &x.answer
	if a.rename != nil && !a.complete && x.modes.response == fullDuplex {
		if err := x.writeBody(false, a.rename.Flush(a.buffer[:0]), false); err != nil {
			return err
		}
	}
	a.seen, a.complete = true, true
	if err := x.write(trailersReply(false, t.GetTrailers())); err != nil {
		return err
	}
	x.settle()
	return nil
}

// settle ends the pick as soon as all is known that will be; the stream may stay
// for a while.
func (x *exchange) settle() {
	if x.pick != nil && (x.answer.complete || x.answer.bodiless) {
		x.finish()
	}
}

// Why nobody knows how a request ended.
const (
	unseenResponse = "response not sent to the picker"
	unseenBody     = "response body not sent to the picker"
)

// finish tells the pick how the request went, or has it wait for somebody who
// knows.
func (x *exchange) finish() {
	pick := x.pick
	x.pick = nil
	e := x.outcome()
	if e.Unknown != "" {
		x.server.waiting.add(pick, e)
		return
	}
	pick.Done(e)
}

// outcome is what was seen of the request's end.
func (x *exchange) outcome() picker.End {
	a := &x.answer
	e := picker.End{
		Status: a.status, ServedEndpoint: a.served, Attempts: a.attempts, Flags: a.flags, Details: a.details,
		PromptTokens: -1, CachedTokens: -1, OutputTokens: -1,
	}
	if a.usage != nil {
		u := a.usage.Found()
		e.PromptTokens, e.CachedTokens, e.OutputTokens = u.Prompt, u.Cached, u.Output
	}
	switch {
	case a.failed:
		e.Error = picker.ErrorInternal
	case a.complete, a.bodiless:
		e.Error = a.fault()
		if a.bodiless && e.Error == "" {
			e.Unknown = unseenBody
		}
	case a.clientGone && !a.seen: // later the stream ends so as well when the pod breaks off
		e.Error = picker.ErrorClientGone
	case a.partial && !a.aborted:
		e.Unknown = unseenBody
	case a.aborted, a.seen:
		e.Error = picker.ErrorAborted
	default:
		e.Unknown = unseenResponse
	}
	return e
}

// fault is the error that an answer with this status is.
func (a *answered) fault() string {
	switch {
	case a.local:
		return picker.ErrorGatewayReply
	case a.status >= 500:
		return picker.ErrorUpstreamStatus
	}
	return ""
}
