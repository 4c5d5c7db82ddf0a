package extproc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
)

// large is a chat request of 200,000 bytes.
var large = `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 200_000-55) + `"}]}`

func sized(of, text, eos string) string { return fmt.Sprintf("%s_body %d%s", of, len(text), eos) }

// Every order of messages that Envoy 1.40 was seen to send, and what has to be
// answered to it.
func TestMessageOrders(t *testing.T) {
	ok := from(podAddress(0), jsonHead())
	for _, tt := range []struct {
		name              string
		request, response mode
		steps             [][]*message // each is sent without waiting
		want              []string
	}{
		{
			"GET", fullDuplex, fullDuplex,
			[][]*message{{get()}, {ok, responseBody("{}", false), responseBody("", true)}},
			[]string{"request_headers", "response_headers", "response_body 2", "response_body 0 eos"},
		},
		{
			"POST with a length over h1", fullDuplex, fullDuplex,
			[][]*message{{post("content-length", strconv.Itoa(len(chatBody))), requestBody(chatBody, false), requestBody("", true)}, {ok, responseBody(jsonAnswer, false), responseBody("", true)}},
			[]string{"request_headers", sized("request", chatBody, " eos"), "response_headers", sized("response", jsonAnswer, ""), "response_body 0 eos"},
		},
		{
			"POST with a length, whose end comes late", fullDuplex, fullDuplex,
			[][]*message{{post("content-length", strconv.Itoa(len(chatBody))), requestBody(chatBody[:9], false)}, {requestBody(chatBody[9:], false)}, {requestBody("", true)}, {ok, responseBody("", true)}},
			[]string{"request_headers", sized("request", chatBody, " eos"), "response_headers", "response_body 0 eos"},
		},
		{
			"POST with a length, whose trailers come late", fullDuplex, fullDuplex,
			[][]*message{{post("content-length", strconv.Itoa(len(chatBody))), requestBody(chatBody, false)}, {requestTrailers("x-sum", "1")}, {ok, responseBody("", true)}},
			[]string{"request_headers", sized("request", chatBody, ""), "request_trailers", "response_headers", "response_body 0 eos"},
		},
		{
			"POST in chunks over h1", fullDuplex, fullDuplex,
			[][]*message{{post(), requestBody(chatBody[:40], false)}, {requestBody(chatBody[40:], false)}, {requestBody("", true)}, {ok, responseBody("", true)}},
			[]string{"request_headers", sized("request", chatBody, " eos"), "response_headers", "response_body 0 eos"},
		},
		{
			"POST over h2", fullDuplex, fullDuplex, // case X1: inside a string, inside a character
			[][]*message{{post(), requestBody(chatBody[:52], false), requestBody(chatBody[52:57], false), requestBody(chatBody[57:], true)}, {ok, responseBody(jsonAnswer, true)}},
			[]string{"request_headers", sized("request", chatBody, " eos"), "response_headers", sized("response", jsonAnswer, " eos")},
		},
		{
			"a large POST", fullDuplex, fullDuplex,
			[][]*message{slices.Concat([]*message{post()}, pieces(requestBody, false, cut(large, 16_384)...), []*message{requestBody("", true)}), {ok, responseBody(large, true)}},
			[]string{
				"request_headers", "request_body 62000", "request_body 62000", "request_body 62000", "request_body 14000 eos",
				"response_headers", "response_body 62000", "response_body 62000", "response_body 62000", "response_body 14000 eos",
			},
		},
		{
			"request trailers", fullDuplex, fullDuplex, // case X4
			[][]*message{{post(), requestBody(chatBody, false), requestTrailers("x-sum", "1")}, {ok, responseBody("", true)}},
			[]string{"request_headers", sized("request", chatBody, ""), "request_trailers", "response_headers", "response_body 0 eos"},
		},
		{
			"request trailers and no body", fullDuplex, fullDuplex,
			[][]*message{{requestHeaders(false, ":method", "POST", ":path", "/v1/other"), requestTrailers("x-sum", "1")}, {ok, responseBody("", true)}},
			[]string{"request_headers", "request_trailers", "response_headers", "response_body 0 eos"},
		},
		{
			"an empty POST", fullDuplex, fullDuplex,
			[][]*message{{requestHeaders(true, ":method", "POST", ":path", "/v1/other")}, {responseHeaders(true, ":status", "204")}},
			[]string{"request_headers", "response_headers"},
		},
		{
			"a POST that turns out to be empty", fullDuplex, fullDuplex,
			[][]*message{{requestHeaders(false, ":method", "POST", ":path", "/v1/other"), requestBody("", true)}, {responseHeaders(true, ":status", "204")}},
			[]string{"request_headers", "request_body 0 eos", "response_headers"},
		},
		{
			"response trailers", fullDuplex, fullDuplex,
			[][]*message{{get()}, {ok, responseBody("{}", false), responseTrailers("x-sum", "1")}},
			[]string{"request_headers", "response_headers", "response_body 2", "response_trailers"},
		},
		{
			"response trailers and no body", fullDuplex, fullDuplex,
			[][]*message{{get()}, {ok, responseTrailers("grpc-status", "0")}},
			[]string{"request_headers", "response_headers", "response_trailers"},
		},
		{
			"BUFFERED", buffered, buffered,
			[][]*message{{post()}, {requestBody(chatBody, true)}, {ok}, {responseBody(jsonAnswer, true)}},
			[]string{"request_headers", "request_body", "response_headers", "response_body"},
		},
		{
			"BUFFERED with trailers", buffered, buffered,
			[][]*message{{post()}, {requestBody(chatBody, false)}, {requestTrailers("x-sum", "1")}, {ok}, {responseBody(jsonAnswer, false)}, {responseTrailers("x-sum", "1")}},
			[]string{"request_headers", "request_body", "request_trailers", "response_headers", "response_body", "response_trailers"},
		},
		{
			"BUFFERED GET", buffered, buffered,
			[][]*message{{get()}, {responseHeaders(true, ":status", "404")}},
			[]string{"request_headers", "response_headers"},
		},
		{
			"BUFFERED_PARTIAL, whole", bufferedPartial, bufferedPartial,
			[][]*message{{post()}, {requestBody(chatBody, true)}, {ok}, {responseBody(jsonAnswer, true)}},
			[]string{"request_headers", "request_body", "response_headers", "response_body"},
		},
		{
			"BUFFERED_PARTIAL, cut", bufferedPartial, bufferedPartial,
			[][]*message{{post()}, {requestBody(chatBody[:60], false)}, {ok}, {responseBody(jsonAnswer[:60], false)}},
			[]string{"request_headers", "request_body", "response_headers", "response_body"},
		},
		{
			"STREAMED", streamed, streamed,
			[][]*message{{post()}, {requestBody(chatBody[:40], false), requestBody(chatBody[40:], false), requestBody("", true)}, {ok, responseBody("{}", false), responseBody("", true)}},
			[]string{"request_headers", "request_body", "request_body", "request_body", "response_headers", "response_body", "response_body"},
		},
		{
			"STREAMED with trailers", streamed, streamed,
			[][]*message{{post()}, {requestBody(chatBody, false), requestTrailers("x-sum", "1")}, {ok, responseBody("{}", false), responseTrailers("x-sum", "1")}},
			[]string{"request_headers", "request_body", "request_trailers", "response_headers", "response_body", "response_trailers"},
		},
		{
			"STREAMED, answered before the body's end", streamed, streamed,
			[][]*message{{post()}, {requestBody(chatBody[:40], false)}, {ok}, {requestBody(chatBody[40:], true)}, {responseBody("{}", true)}},
			[]string{"request_headers", "request_body", "response_headers", "request_body", "response_body"},
		},
		{
			"NONE", none, none,
			[][]*message{{post()}, {ok}},
			[]string{"request_headers", "response_headers"},
		},
		{
			"NONE with trailers", none, none,
			[][]*message{{post()}, {requestTrailers("x-sum", "1")}, {ok}, {responseTrailers("x-sum", "1")}},
			[]string{"request_headers", "request_trailers", "response_headers", "response_trailers"},
		},
		{
			"the response's body is not sent", fullDuplex, none,
			[][]*message{{post(), requestBody(chatBody, true)}, {ok}},
			[]string{"request_headers", sized("request", chatBody, " eos"), "response_headers"},
		},
		{
			"the response's pieces one by one", fullDuplex, streamed,
			[][]*message{{post(), requestBody(chatBody, true)}, {ok, responseBody("{", false), responseBody("}", true)}},
			[]string{"request_headers", sized("request", chatBody, " eos"), "response_headers", "response_body", "response_body"},
		},
		{
			"the request as a whole", buffered, fullDuplex,
			[][]*message{{post()}, {requestBody(chatBody, true)}, {ok, responseBody("{", false), responseBody("}", true)}},
			[]string{"request_headers", "request_body", "response_headers", "response_body 1", "response_body 1 eos"},
		},
		{
			"the last piece twice", fullDuplex, fullDuplex, // case X2
			[][]*message{{post(), requestBody(chatBody, true)}, {requestBody(chatBody, true), requestBody("", true)}, {ok, responseBody("{}", true)}, {responseBody("{}", true)}},
			[]string{"request_headers", sized("request", chatBody, " eos"), "response_headers", "response_body 2 eos"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *site) {
				f := s.open(t, tt.request, tt.response)
				for _, step := range tt.steps {
					f.send(step...)
				}
				f.done()
				if diff := cmp.Diff(tt.want, f.sequence); diff != "" {
					t.Error(diff)
				}
				f.passed()
				if to, agreed := f.destination(); to != podAddress(0) || !agreed {
					t.Errorf("sent to %q, want %s in header and metadata", to, podAddress(0))
				}
				s.abandon(t)
				checkGateway(t, s.record(t), tt.request, tt.response, tt.response == none || !f.response.ended)
			})
		})
	}
}

// passed fails unless both bodies and their trailers go on as they came.
func (f *front) passed() {
	f.tb.Helper()
	for name, s := range map[string]*side{"request": &f.request, "response": &f.response} {
		want := slices.Concat(s.pieces...)
		if f.broken { // what comes after the end is not passed on
			want = s.pieces[0]
		}
		if s.mode != none && string(s.body) != string(want) {
			f.tb.Errorf("the %s's body is passed on as %.200q, want %.200q", name, s.body, want)
		}
		if s.trailers && len(s.trailing) != 1 {
			f.tb.Errorf("the %s's trailers are passed on as %v, want the one", name, s.trailing)
		}
	}
}

// checkGateway holds a record against an exchange that went well, as far as
// the picker could see.
func checkGateway(tb testing.TB, r *explain.Record, request, response mode, unseen bool) {
	tb.Helper()
	g := r.Gateway
	if g == nil || g.Kind != "envoy" || g.RequestBody != request.String() || g.ResponseBody != response.String() || g.Subset != nil || len(g.Fallbacks) > 0 {
		tb.Errorf("the record's gateway is %+v, want envoy with %v and %v", g, request, response)
	}
	o, want := r.Outcome, explain.Outcome{State: explain.OutcomeDone}
	if unseen {
		want = explain.Outcome{State: explain.OutcomeUnknown, Detail: unseenBody}
	}
	if o.State != want.State || o.Detail != want.Detail || o.Error != "" || o.Status == 0 {
		tb.Errorf("the record's outcome is %+v, want %s, %q", o, want.State, want.Detail)
	}
	if o.ServedEndpoint != r.Result.Endpoint {
		tb.Errorf("served by %q, want %q", o.ServedEndpoint, r.Result.Endpoint)
	}
}

// A gateway that does not tell its modes does as the protocol says.
func TestModesNotTold(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		f.config = nil
		f.send(post(), requestBody(chatBody, true)).send(jsonHead(), responseBody(jsonAnswer, true)).done()
		f.passed()
		if g := s.record(t).Gateway; g.RequestBody != "" || g.ResponseBody != "" {
			t.Errorf("the record has modes %+v, want none", g)
		}
		s.settled(t)
	})
}

// Every request with every response, in every pair of modes.
func TestAllOrders(t *testing.T) {
	bodies := func(of func(string, bool) *message, m mode, text string) [][]*message {
		switch m {
		case none:
			return [][]*message{nil}
		case buffered, bufferedPartial:
			return [][]*message{{of(text, true)}, {of(text, false)}}
		default:
			return [][]*message{
				{of(text, true)},
				{of(text, false), of("", true)},
				pieces(of, true, cut(text, 7)...),
				pieces(of, false, cut(text, 1)...),
			}
		}
	}
	trail := func(ms []*message, trailers *message) []*message {
		if n := len(ms); n > 0 && (ms[n-1].GetRequestBody().GetEndOfStream() || ms[n-1].GetResponseBody().GetEndOfStream()) {
			return ms
		}
		return append(slices.Clone(ms), trailers)
	}
	modes := []mode{none, streamed, buffered, bufferedPartial, fullDuplex}
	bubble(t, nil, func(t *testing.T, s *site) {
		n := 0
		for _, request := range modes {
			for _, response := range modes {
				for i, sent := range bodies(requestBody, request, chatBody) {
					for j, answer := range bodies(responseBody, response, sseAnswer) {
						name := fmt.Sprintf("%v %d, %v %d", request, i, response, j)
						f := s.open(t, request, response)
						if request == fullDuplex {
							f.send(append([]*message{post()}, trail(sent, requestTrailers("x-sum", "1"))...)...)
						} else {
							f.send(post()).send(trail(sent, requestTrailers("x-sum", "1"))...)
						}
						f.send(sseHead()).send(trail(answer, responseTrailers("x-sum", "1"))...)
						f.done().passed()
						if t.Failed() {
							t.Fatalf("%s: %v", name, f.sequence)
						}
						n++
					}
				}
			}
		}
		s.abandon(t)
		if got := s.Stats(); got.Requests != uint64(n) || got.Refused+got.Panics+got.Mismatches+got.SecondEnds > 0 {
			t.Errorf("%d requests are counted as %+v", n, got)
		}
	})
}
