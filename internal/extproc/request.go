package extproc

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/steering"
)

// requestHeaders begins the exchange.
func (x *exchange) requestHeaders(m *extproc.ProcessingRequest, h *extproc.HttpHeaders) error {
	if !x.began.none() || x.answer.seen {
		return x.mismatch("request headers came twice, or after the response's")
	}
	x.began = now()
	cfg := &x.server.cfg
	x.send.Lock()
	err := x.head.read(h.GetHeaders(), cfg)
	x.send.Unlock()
	x.head.client = sourceAddress(m.GetAttributes())
	if x.surplus {
		err = errTooMany
	}
	switch {
	case err != nil:
		return x.refuse(err)
	case h.GetEndOfStream():
		return x.route(x.replyHead)
	}
	switch x.modes.request {
	case fullDuplex:
		return nil
	case buffered:
		if err := x.body.expect(x.head.length, cfg.MaxBody); err != nil {
			return x.refuse(err)
		}
		return x.write(emptyHeaders)
	case bufferedPartial:
		return x.write(emptyHeaders)
	case streamed, none:
		x.head.bodiless = "the gateway sends no body before the pod is chosen (" + x.modes.request.String() + ")"
		return x.route(x.replyHead)
	default:
	}
	return x.mismatch("request_body_mode " + x.modes.request.String() + " is not served; use FULL_DUPLEX_STREAMED")
}

// requestBody takes the next piece of the request's body.
func (x *exchange) requestBody(b *extproc.HttpBody) error {
	if x.began.none() {
		return x.mismatch("a body came before the request's headers: request_header_mode must be SEND")
	}
	switch x.progress.Load() {
	case decided:
		return x.lateBody(b)
	case overtaken:
		return nil
	}
	if err := x.body.add(b.GetBody(), x.server.cfg.MaxBody); err != nil {
		return x.refuse(err)
	}
	switch {
	case x.modes.request == buffered, x.modes.request == bufferedPartial:
		x.head.partial = !b.GetEndOfStream()
		return x.route(x.replyBuffered)
	case b.GetEndOfStream():
		return x.route(func() error { return x.replyAll(true) })
	}
	return nil
}

// lateBody is a piece that comes after the decision: in STREAMED mode all do.
func (x *exchange) lateBody(b *extproc.HttpBody) error {
	switch {
	case x.modes.request == streamed, x.modes.request == none:
		return x.write(unchangedRequestBody)
	case len(b.GetBody()) > 0 && !b.GetEndOfStream():
		return x.mismatch("a piece of the body came after its end")
	}
	// Envoy has been seen to deliver the last piece twice.
	x.server.counts.secondEnds.Add(1)
	return nil
}

// requestTrailers end the body when no piece did.
func (x *exchange) requestTrailers(t *extproc.HttpTrailers) error {
	if x.began.none() {
		return x.mismatch("trailers came before the request's headers: request_header_mode must be SEND")
	}
	trailers := func() error { return x.write(trailersReply(true, t.GetTrailers())) }
	switch {
	case x.progress.Load() == decided:
		return trailers()
	case x.progress.Load() == overtaken:
		return nil
	}
	if x.modes.request == buffered || x.modes.request == bufferedPartial {
		// The headers are answered, and no body came with which their mutation could go.
		return x.refuse(&request.Error{Status: http.StatusBadRequest, Param: "body", Message: "there is no body, but trailers"})
	}
	return x.route(func() error {
		if err := x.replyAll(false); err != nil {
			return err
		}
		return trailers()
	})
}

// route decides and answers with reply, or refuses. What the exchange held of
// the body is given back in both cases.
func (x *exchange) route(reply func() error) error {
	waited := x.began.passed()
	if err := x.decide(waited); err != nil {
		return x.refuse(err)
	}
	x.armed.Store(true)
	x.timer.Reset(x.server.cfg.BodyTimeout) // who does not read must not keep memory from others
	err := reply()
	x.timer.Reset(x.server.cfg.IdleTimeout)
	// The goroutine that writes to the connection goes first. It yields once itself,
	// to see whether there is more to write.
	runtime.Gosched()
	runtime.Gosched()
	x.pick.Record()
	x.head.subset, x.head.headers = nil, nil // nobody needs them any more
	x.body.release()
	return err
}

var (
	errTooMany = errors.New("too many streams")
	errExpired = errors.New("answered already")
)

// decide reads the request and has a pod picked for it.
func (x *exchange) decide(waited time.Duration) error {
	if !x.progress.CompareAndSwap(gathering, decided) {
		return errExpired
	}
	began := now()
	parsed, err := x.parse()
	if err != nil {
		return err
	}
	if err := x.checkRoute(parsed); err != nil {
		return err
	}
	cfg := &x.server.cfg
	requestBody, responseBody := x.modes.names()
	call := &picker.Call{
		ID: x.head.id, IDReplaced: x.head.idReplaced, Path: x.head.path, Request: parsed, Route: x.head.model,
		Headers: x.head.headers, Client: x.head.client, Fallbacks: cfg.Fallbacks, RecordLater: true,
		Gateway:  &record.Gateway{Kind: "envoy", RequestBody: requestBody, ResponseBody: responseBody},
		BodyWait: waited,
		Arrival:  cfg.Clock.Now(), Parsing: began.passed(),
	}
	if len(x.body.pieces) == 1 { // joined, when it was read
		call.Body = x.body.pieces[0]
	}
	if x.head.restricted {
		call.Subset = x.head.subset
	}
	if x.pick, err = cfg.Picker.Pick(x.stream.Context(), call); err != nil {
		return err
	}
	return x.rename(parsed.Model)
}

func (x *exchange) parse() (*request.Request, error) {
	h := &x.head
	if h.bodiless != "" {
		return &request.Request{Kind: request.Other, Choices: 1, NoPrefix: h.bodiless}, nil
	}
	text, err := x.body.join()
	if err != nil {
		return nil, err
	}
	parsed, err := request.Read(h.method, h.path, request.Coding(h.coding), text, x.server.cfg.Limits)
	if err != nil && h.partial && x.modes.request == bufferedPartial {
		return &request.Request{Kind: request.Other, Choices: 1, NoPrefix: "the gateway sends only the beginning of the body (BUFFERED_PARTIAL)"}, nil
	}
	return parsed, err
}

// checkRoute looks at the model that the route names in a header, which gateways do
// to split or move traffic.
func (x *exchange) checkRoute(r *request.Request) error {
	if x.head.model == "" || r.Model == "" {
		return nil
	}
	if len(x.head.model) > maxModel || strings.ContainsFunc(x.head.model, unicode.IsControl) || !utf8.ValidString(x.head.model) {
		return &request.Error{
			Status: http.StatusBadRequest, Param: steering.Model, Code: "invalid_request",
			Message: fmt.Sprintf("must be the name of a model, of %d bytes at most", maxModel),
		}
	}
	return nil
}

// maxModel bounds the name of a model in a header, in bytes.
const maxModel = 1024

// rename names the model in the body as the engines do, unless more of it may
// follow unseen: nobody could say then how long it is.
func (x *exchange) rename(asked string) error {
	if x.head.partial && x.modes.request == bufferedPartial {
		return nil
	}
	served := x.pick.Served()
	if served == asked || asked == "" || len(x.body.pieces) == 0 {
		return nil
	}
	if err := x.body.exchange(func() ([]byte, error) { return request.RewriteModel(x.body.pieces[0], served) }); err != nil {
		return err
	}
	x.asked, x.served = asked, served
	return nil
}

// refuse answers the client in the pod's place.
func (x *exchange) refuse(err error) error {
	if x.progress.Swap(refused) == refused {
		return nil
	}
	x.body.release()
	if errors.Is(err, errNoMemory) || errors.Is(err, errTooMany) {
		x.server.counts.overloaded.Add(1)
		err = &request.Error{
			Status: http.StatusServiceUnavailable, Code: "overloaded",
			Message: "too many requests are in flight; try again",
		}
	}
	told := picker.ClientError(err)
	if x.pick != nil { // what failed came after the decision
		x.pick.Done(picker.End{Status: told.Status, Error: picker.ErrorInternal, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1})
		x.pick = nil
	}
	return x.sendRefusal(told)
}

// sourceAddress is the client's address when the gateway tells it, without a
// port.
func sourceAddress(attributes map[string]*structpb.Struct) string {
	address := attributes[attributesKey].GetFields()["source.address"].GetStringValue()
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		return strings.Trim(address[:i], "[]")
	}
	return address
}
