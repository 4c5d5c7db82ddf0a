package extproc

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/steering"
)

// counted reports whether the engine's counts stand in the record.
func counted(r *explain.Record, prompt, cached, output int) bool {
	o := r.Outcome
	return cmp.Equal([]*int{o.PromptTokens, o.CachedTokens, o.OutputTokens}, []*int{new(prompt), new(cached), new(output)})
}

// case X5: what can't be read is unknown, and never wrong.
func TestUsageOfAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, body             string
		head                   *message
		prompt, cached, output *int
	}{
		{"JSON", jsonAnswer, jsonHead(), new(9), new(8), new(4)},
		{"stream", sseAnswer, sseHead(), new(9), new(8), new(4)},
		{"null", `{"usage":null}`, jsonHead(), nil, nil, nil},
		{"wrong types", `{"usage":{"prompt_tokens":"9","completion_tokens":4,"prompt_tokens_details":[8]}}`, jsonHead(), nil, nil, new(4)},
		{"compressed", jsonAnswer, jsonHead("content-encoding", "gzip"), nil, nil, nil},
		{"of an error", jsonAnswer, responseHeaders(false, ":status", "400", "content-type", "application/json"), nil, nil, nil},
		{"[DONE] by itself", "data: [DONE]\n\n", sseHead(), nil, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *site) {
				for size := 1; size <= len(tt.body); size += 1 + size/8 {
					f := s.open(t, fullDuplex, fullDuplex)
					f.send(post(), requestBody(chatBody, true)).send(tt.head)
					f.send(pieces(responseBody, true, cut(tt.body, size)...)...).done().passed()
					o := s.records(t)[0].Outcome
					if !cmp.Equal([]*int{tt.prompt, tt.cached, tt.output}, []*int{o.PromptTokens, o.CachedTokens, o.OutputTokens}) {
						t.Fatalf("in pieces of %d: %+v", size, o)
					}
				}
				s.settled(t)
			})
		})
	}
}

// Who served, and how, as the gateway tells it.
func TestServedEndpoint(t *testing.T) {
	served := func(m *message, endpoint string) *message {
		return with(m, metadata(namespaceLB, steering.Served, endpoint))
	}
	for _, tt := range []struct {
		name      string
		fallbacks int
		head      *message
		want      explain.Outcome
		attempts  int
	}{
		{"nobody tells and there is no choice", 0, jsonHead(), explain.Outcome{Status: 200, ServedEndpoint: podAddress(0)}, 0},
		{"nobody tells and there is a choice", 2, jsonHead(), explain.Outcome{Status: 200}, 0},
		{"an address", 2, from(podAddress(0), jsonHead()), explain.Outcome{Status: 200, ServedEndpoint: podAddress(0)}, 0},
		{"the cluster", 2, served(jsonHead(), podAddress(0)), explain.Outcome{Status: 200, ServedEndpoint: podAddress(0)}, 0},
		{"a fallback", 2, served(from(podAddress(2), jsonHead()), podAddress(1)), explain.Outcome{Status: 200, ServedEndpoint: podAddress(1)}, 2},
		{"an endpoint that no pod has", 2, from("10.9.9.9:1", jsonHead()), explain.Outcome{Status: 200, ServedEndpoint: "10.9.9.9:1"}, 0},
		{
			"all that Envoy knows", 1,
			told(jsonHead(), map[string]any{
				"upstream.address": podAddress(0), "upstream.request_attempt_count": 3, "response.flags": 1<<5 | 1<<15,
				"response.code": 200, "response.code_details": "via_upstream",
			}),
			explain.Outcome{Status: 200, ServedEndpoint: podAddress(0), Attempts: new(3), Flags: "UF,URX", CodeDetails: "via_upstream"},
			0,
		},
		{
			"an engine's error", 0, from(podAddress(0), responseHeaders(false, ":status", "503")),
			explain.Outcome{Status: 503, Error: picker.ErrorUpstreamStatus, ServedEndpoint: podAddress(0)},
			0,
		},
		{
			"Envoy's own error", 0, told(responseHeaders(false, ":status", "503"), map[string]any{"response.code": 503, "response.code_details": "no_healthy_upstream"}),
			explain.Outcome{Status: 503, Error: picker.ErrorGatewayReply, CodeDetails: "no_healthy_upstream"},
			0,
		},
		{"no status", 0, from(podAddress(0), responseHeaders(false, ":status", "abc")), explain.Outcome{ServedEndpoint: podAddress(0)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(set *setup) { set.server.Fallbacks = tt.fallbacks }, func(t *testing.T, s *site) {
				f := s.open(t, fullDuplex, fullDuplex)
				f.send(post(), requestBody(chatBody, true))
				if to, agreed := f.destination(); !agreed || to != strings.Join([]string{podAddress(0), podAddress(1), podAddress(2)}[:1+tt.fallbacks], ",") {
					t.Errorf("sent to %s, want the pod and %d fallbacks", to, tt.fallbacks)
				}
				time.Sleep(time.Second)
				f.send(tt.head, responseBody("{}", false))
				time.Sleep(time.Second)
				f.send(responseBody("", true)).done()
				r := s.record(t)
				want := tt.want
				want.State, want.DurationSeconds, want.PredictedCached = explain.OutcomeDone, new(2.0), r.Outcome.PredictedCached
				if want.Error != picker.ErrorGatewayReply {
					want.TTFTSeconds = new(1.0)
				}
				if diff := cmp.Diff(want, r.Outcome); diff != "" {
					t.Error(diff)
				}
				if len(r.Attempts) != tt.attempts || len(r.Gateway.Fallbacks) != tt.fallbacks {
					t.Errorf("attempts %v, fallbacks %v, want %d and %d", r.Attempts, r.Gateway.Fallbacks, tt.attempts, tt.fallbacks)
				}
				s.settled(t)
			})
		})
	}
}

// An answer that comes before the request was decided on is the gateway's own:
// another filter's, or the end of its patience.
func TestLocalReplies(t *testing.T) {
	local := func(status string) *message {
		return told(responseHeaders(false, ":status", status), map[string]any{"response.code": 0})
	}
	for name, before := range map[string][]*message{
		"another filter answered":   nil,
		"in the middle of the body": {post(), requestBody(chatBody[:9], false)},
	} {
		for _, response := range []mode{fullDuplex, buffered, streamed} {
			t.Run(name+" "+response.String(), func(t *testing.T) {
				bubble(t, nil, func(t *testing.T, s *site) {
					f := s.open(t, fullDuplex, response)
					if len(before) > 0 {
						f.send(before...)
					}
					f.send(local("504"))
					if n := s.Stats().BodyBytes; n > 0 {
						t.Errorf("%d bytes of the body are held", n)
					}
					time.Sleep(s.cfg.BodyTimeout + time.Second)
					f.send(responseBody("stream timeout", true))
					if string(f.response.body) != "stream timeout" {
						t.Errorf("the client gets %q", f.response.body)
					}
					if f.broken = true; len(before) > 0 { // what was on its way is dropped
						f.send(requestBody(chatBody[9:], false), requestBody("", true), requestTrailers())
					}
					if f.err != nil || len(f.sequence) != 2 {
						t.Errorf("%v, ended with %v", f.sequence, f.err)
					}
					f.done()
					if got := s.records(t); len(got) > 0 {
						t.Errorf("%d records of a request that nobody decided on", len(got))
					}
					s.settled(t)
				})
			})
		}
	}
}

// The scores of the listed endpoints are sent when they are asked for.
func TestScoresMetadata(t *testing.T) {
	for _, on := range []bool{false, true} {
		bubble(t, func(set *setup) { set.server.ScoresMetadata, set.server.Fallbacks = on, 1 }, func(t *testing.T, s *site) {
			f := s.open(t, fullDuplex, fullDuplex)
			f.send(post(), requestBody(chatBody, true)).done()
			scores := f.metadata.GetFields()[namespaceLB].GetStructValue().GetFields()[steering.Scores].GetStructValue().AsMap()
			if !on {
				if len(scores) > 0 {
					t.Errorf("scores %v though nobody asked", scores)
				}
				return
			}
			first, _ := scores[podAddress(0)].(float64)
			second, _ := scores[podAddress(1)].(float64)
			if len(scores) != 2 || first <= second || second <= 0 {
				t.Errorf("scores %v, want those of %s and %s, the first higher", scores, podAddress(0), podAddress(1))
			}
		})
	}
}

// case X6: nobody but the picker steers, on the way there or back.
func TestSteeringIsStripped(t *testing.T) {
	attack := []string{
		"x-gateway-destination-endpoint", "6.6.6.6:1", "X-Gateway-Destination-Endpoint", "6.6.6.6:2", "x_gateway_destination_endpoint", "6.6.6.6:3",
		"X-Prefiller-Host-Port", "6.6.6.6:4", "x-prefiller-host-port", "6.6.6.6:5", "X-LLM-D-Any", "1", "x-gateway-inference-objective", "1",
		"x-data-parallel-rank", "3", "x-eppctl-pod", "p", "x-gateway-destination-endpoint-served", podAddress(2),
	}
	mine := []string{"x-mine", "1"}
	clean := func(t *testing.T, of string, f fields) {
		t.Helper()
		for name, values := range f {
			if steering.Is(name) && (name != steering.Destination || !slices.Equal(values, []string{podAddress(0)})) {
				t.Errorf("the %s goes on with %s: %v", of, name, values)
			}
		}
		if f.get("x-mine") != "1" {
			t.Errorf("the %s goes on with %v, want x-mine", of, f)
		}
	}
	for _, m := range []mode{fullDuplex, buffered, streamed} {
		t.Run(m.String(), func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *site) {
				f := s.open(t, m, m)
				pairs := slices.Concat(attack, mine)
				if m == fullDuplex {
					f.send(post(pairs...), requestBody(chatBody, false), requestTrailers(pairs...))
				} else {
					f.send(post(pairs...)).send(requestBody(chatBody, false)).send(requestTrailers(pairs...))
				}
				f.send(jsonHead(pairs...)).send(responseBody("{}", false)).send(responseTrailers(pairs...)).done()
				clean(t, "request", f.request.fields)
				clean(t, "request's trailers", f.request.trailing)
				clean(t, "response", f.response.fields)
				clean(t, "response's trailers", f.response.trailing)
				if to := f.request.fields.get(steering.Destination); to != podAddress(0) || s.record(t).Outcome.ServedEndpoint != podAddress(0) {
					t.Errorf("sent to %q, served by %q", to, s.record(t).Outcome.ServedEndpoint)
				}
				s.settled(t)
			})
		})
	}
}

func TestRequestID(t *testing.T) {
	long := strings.Repeat("x", 129)
	for _, tt := range []struct {
		name     string
		given    []string // in the request
		answered string   // in the answer
		keep     bool
		replaced bool
	}{
		{"kept", []string{"my id"}, "", true, false},
		{"kept and returned already", []string{"my-id"}, "my-id", true, false},
		{"kept against the pod's", []string{"my-id"}, "other", true, false},
		{"the first of two", []string{"my-id", "second"}, "", true, false},
		{"made", nil, "", false, false},
		{"too long", []string{long}, "", false, true},
		{"not printable", []string{"a\tb"}, "", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *site) {
				f := s.open(t, fullDuplex, fullDuplex)
				var pairs, answered []string
				for _, id := range tt.given {
					pairs = append(pairs, steering.RequestID, id)
				}
				if tt.answered != "" {
					answered = []string{steering.RequestID, tt.answered}
				}
				f.send(post(pairs...), requestBody(chatBody, true)).send(jsonHead(answered...), responseBody("{}", true)).done()
				r := s.record(t)
				id := r.RequestID
				if tt.keep != (len(tt.given) > 0 && id == tt.given[0]) || r.RequestIDReplaced != tt.replaced || !tt.keep && len(id) != 36 {
					t.Errorf("recorded as %q, replaced %v", id, r.RequestIDReplaced)
				}
				if up := f.request.fields[steering.RequestID]; len(up) == 0 || up[0] != id {
					t.Errorf("the pod gets %v, want %q", up, id)
				}
				if down := f.response.fields.get(steering.RequestID); down != id {
					t.Errorf("the client gets %q, want %q", down, id)
				}
			})
		})
	}
}

// The route is chosen again by the destination, in whichever reply that stands.
func TestRouteCacheIsCleared(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *site) {
		for _, m := range []mode{fullDuplex, buffered, streamed, none} {
			f := s.open(t, m, none)
			var with *reply
			watch := func() {
				for _, r := range f.inbox {
					common := r.GetRequestHeaders().GetResponse()
					if b := r.GetRequestBody(); b != nil && m == buffered {
						common = b.GetResponse()
					}
					if common.GetClearRouteCache() && common.GetHeaderMutation() != nil && r.GetDynamicMetadata() != nil {
						with = r
					}
				}
			}
			f.watch = watch
			f.send(post())
			if m != none {
				f.send(requestBody(chatBody, true))
			}
			f.done()
			if with == nil {
				t.Errorf("%v: no reply with destination, metadata and clear_route_cache", m)
			}
		}
	})
}
