package extproc

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/steering"
	"github.com/eppctl/eppctl/score"
)

// refusal is what a client is told in the pod's place.
type refusal struct {
	status                       int
	code, param, dropped, detail string
	retry                        string
}

// refused reads the immediate response.
func (f *front) refused() refusal {
	f.tb.Helper()
	var doc struct {
		Error *struct {
			Message, Type string
			Param, Code   *string
		}
	}
	if f.immediate == nil {
		f.tb.Fatalf("no immediate response: %v", f.sequence)
	}
	if err := json.Unmarshal(f.immediate.GetBody(), &doc); err != nil || doc.Error == nil || doc.Error.Message == "" || doc.Error.Type == "" {
		f.tb.Fatalf("not an OpenAI error object: %q", f.immediate.GetBody())
	}
	set := fields{}
	f.mutate(set, f.immediate.GetHeaders())
	if set.get("content-type") != "application/json" || set.get(steering.RequestID) == "" {
		f.tb.Errorf("headers %v, want a type and a request ID", set)
	}
	r := refusal{status: int(f.immediate.GetStatus().GetCode()), dropped: set.get(steering.Dropped), retry: set.get("retry-after"), detail: f.immediate.GetDetails()}
	if doc.Error.Code != nil {
		r.code = *doc.Error.Code
	}
	if doc.Error.Param != nil {
		r.param = *doc.Error.Param
	}
	return r
}

// saturate fills the queues of all pods.
func saturate(set *setup) {
	set.queue = 1
	set.picker.Weights.MaxQueue, set.picker.Weights.Saturation = 1, score.Reject
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", 700)
	catalogue := func(set *setup) { set.models = []pool.ModelEntry{{Name: "known"}} }
	short := func(set *setup) { set.server.MaxBody = 500 }
	saturated := refusal{429, "saturated", "", "rejected-saturated", "eppctl_saturated", "3"}
	nobody := refusal{503, "no_endpoints", "", "rejected-no-endpoints", "eppctl_no_endpoints", "3"}
	overloaded := refusal{503, "overloaded", "", "rejected-overloaded", "eppctl_overloaded", "3"}
	tooLarge := refusal{status: 413, code: "request_too_large", param: "body", detail: "eppctl_request_too_large"}
	tooManyHeaders := refusal{status: 431, code: "headers_too_large", detail: "eppctl_headers_too_large"}
	many := make([]string, 0, 200)
	for i := range 100 { // case X8
		many = append(many, fmt.Sprint("x-h", i), strings.Repeat("v", 8<<10))
	}
	for _, tt := range []struct {
		name   string
		change func(*setup)
		ms     []*message // after the last of which it comes
		want   refusal
		holds  bool // a decision is recorded
	}{
		{"bad JSON", nil, []*message{post(), requestBody(`{"model":"m",`, true)}, refusal{status: 400, code: "invalid_request", param: "body", detail: "eppctl_invalid_request"}, false},
		{"no model", nil, []*message{post(), requestBody(`{"messages":[]}`, true)}, refusal{status: 400, code: "invalid_request", param: "model", detail: "eppctl_invalid_request"}, false},
		{"an empty body", nil, []*message{post(), requestBody("", true)}, refusal{status: 400, code: "invalid_request", param: "body", detail: "eppctl_invalid_request"}, false},
		{"an empty body with the headers", nil, []*message{requestHeaders(true, ":method", "POST", ":path", chatPath)}, refusal{status: 400, code: "invalid_request", param: "body", detail: "eppctl_invalid_request"}, false},
		{"bad JSON before trailers", nil, []*message{post(), requestBody(`{"model":`, false), requestTrailers()}, refusal{status: 400, code: "invalid_request", param: "body", detail: "eppctl_invalid_request"}, false},
		{"a model that is unknown", catalogue, []*message{post(), requestBody(chatBody, true)}, refusal{status: 404, code: "model_not_found", param: "model", detail: "eppctl_model_not_found"}, false},
		{"a body over the limit", short, []*message{post(), requestBody(long, false)}, tooLarge, false},
		{"a body that gets over the limit", short, []*message{post(), requestBody(long[:400], false), requestBody(long[:101], false)}, tooLarge, false},
		{"a last piece over the limit", short, []*message{post(), requestBody(long[:400], false), requestBody(long[:101], true)}, tooLarge, false},
		{"all pods are busy", saturate, []*message{post(), requestBody(chatBody, true)}, saturated, true},
		{"all pods are busy, GET", saturate, []*message{get()}, saturated, true},
		{"no pods", func(set *setup) { set.pods = nil }, []*message{post(), requestBody(chatBody, true)}, nobody, true},
		{"no pods, GET", func(set *setup) { set.pods = nil }, []*message{get()}, nobody, true},
		{"headers too large", nil, []*message{post(many...)}, tooManyHeaders, false},
		{"headers too large, GET", nil, []*message{get(many...)}, tooManyHeaders, false},
		{"too many headers", func(set *setup) { set.server.MaxHeaders = 4 }, []*message{post("x-a", "1")}, tooManyHeaders, false},
		{"no memory for the body", func(set *setup) { set.server.MaxBodies = 100 }, []*message{post(), requestBody(long, false)}, overloaded, false},
		{
			"no memory to join the body", func(set *setup) { set.server.MaxBodies = 1200 },
			[]*message{post(), requestBody(long[:300], false), requestBody(long[:300], true)},
			overloaded, false,
		},
		{"no memory for another name", func(set *setup) { aliased(set); set.server.MaxBodies = 300 }, []*message{post(), requestBody(fmt.Sprintf(oddBody, "prod"), true)}, overloaded, true},
		{"no stream is left", func(set *setup) { set.server.MaxStreams = 1 }, []*message{post()}, overloaded, false},
		{"a route's name of no model", nil, []*message{post(steering.Model, "a\x00b"), requestBody(chatBody, true)}, refusal{status: 400, code: "invalid_request", param: steering.Model, detail: "eppctl_invalid_request"}, false},
	} {
		for _, m := range []mode{fullDuplex, buffered, bufferedPartial} {
			if m != fullDuplex && len(tt.ms) > 2 || m == bufferedPartial && strings.Contains(tt.name, "JSON") {
				continue
			}
			t.Run(tt.name+" "+m.String(), func(t *testing.T) {
				bubble(t, func(set *setup) {
					set.server.RetryAfter = 2*time.Second + 1
					if tt.change != nil {
						tt.change(set)
					}
				}, func(t *testing.T, s *site) {
					if s.cfg.MaxStreams == 1 {
						s.open(t, fullDuplex, fullDuplex).send(post())
					}
					f := s.open(t, m, m)
					for i, message := range tt.ms {
						if f.send(message); i < len(tt.ms)-1 && f.immediate != nil {
							t.Errorf("refused after %d messages", i+1)
						}
					}
					if diff := cmp.Diff(tt.want, f.refused(), cmp.AllowUnexported(refusal{})); diff != "" {
						t.Error(diff)
					}
					// What was on its way is taken, and nothing is held for it.
					f.send(requestBody(long, false), requestBody("", true), responseHeaders(true, ":status", "200"))
					if n := s.Stats().BodyBytes; n != 0 {
						t.Errorf("%d bytes of the body are held after the refusal", n)
					}
					f.done()
					if n := len(s.records(t)); (n > 0) != tt.holds {
						t.Errorf("%d records", n)
					} else if n > 0 {
						if o := s.records(t)[0].Outcome; o.State != explain.OutcomeDone || o.Status != tt.want.status {
							t.Errorf("recorded as %+v, want status %d", o, tt.want.status)
						}
					}
					st := s.Stats()
					if st.Refused != 1 || st.Overloaded != map[bool]uint64{true: 1}[tt.want.code == "overloaded"] || st.Panics+st.Mismatches+st.SecondEnds > 0 {
						t.Errorf("counted as %+v", st)
					}
					if n := s.picker.Open(); n != 0 {
						t.Errorf("%d picks are open", n)
					}
				})
			})
		}
	}
}

// case X8: what can't be read is routed by load, and the record says why.
func TestBodiesThatCannotBeRead(t *testing.T) {
	for name, tt := range map[string]struct {
		head    *message
		body    string
		request mode
		want    string
	}{
		"gzip":              {post("content-encoding", "gzip"), "\x1f\x8b\x08", fullDuplex, "a compressed body (gzip)"},
		"gzip, twice":       {post("content-encoding", "gzip", "content-encoding", "br"), "\x1f\x8b\x08", fullDuplex, "an encoded body"},
		"another path":      {requestHeaders(false, ":method", "POST", ":path", "/v1/audio?key=x"), "anything", fullDuplex, "this path"},
		"no path":           {requestHeaders(false, "x-a", "1"), "anything", fullDuplex, "this path"},
		"GET with a body":   {requestHeaders(false, ":method", "GET", ":path", chatPath), "anything", fullDuplex, "only a POST"},
		"STREAMED":          {post(), "", streamed, "STREAMED"},
		"NONE":              {post(), "", none, "NONE"},
		"BUFFERED_PARTIAL":  {post(), chatBody[:40], bufferedPartial, "BUFFERED_PARTIAL"},
		"gzip and BUFFERED": {post("content-encoding", "gzip"), "\x1f\x8b\x08", buffered, "a compressed body (gzip)"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *site) {
				f := s.open(t, tt.request, fullDuplex)
				f.send(tt.head)
				if tt.body != "" {
					f.send(requestBody(tt.body, tt.request != bufferedPartial))
				}
				f.send(from(podAddress(0), jsonHead()), responseBody(jsonAnswer, true)).done().passed()
				r := s.record(t)
				if !strings.Contains(r.Request.NoPrefix, tt.want) || r.Outcome.Status != 200 || r.Result.Pod != "pod-0" {
					t.Errorf("recorded as %+v with %+v, want %q", r.Request, r.Outcome, tt.want)
				}
				if strings.Contains(r.Request.Path, "?") {
					t.Errorf("path %q", r.Request.Path)
				}
				s.settled(t)
			})
		})
	}
}

// case X8: the type of a body is not asked for.
func TestNoContentType(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		f.send(requestHeaders(false, ":method", "POST", ":path", chatPath), requestBody(chatBody, true))
		f.send(jsonHead(), responseBody("{}", true)).done()
		if r := s.record(t); r.Request.NoPrefix != "" || r.Request.Model != "m" {
			t.Errorf("recorded as %+v", r.Request)
		}
	})
}

// Only the headers that custom scorers may see are kept, and those under their
// usual names.
func TestAllowedHeaders(t *testing.T) {
	var h head
	cfg := &Config{AllowHeaders: []string{"X-Tenant", "x-user-tier"}}
	cfg.withDefaults()
	err := h.read(post("x-tenant", "a", "x-tenant", "b", "x-user-tier", "gold", "authorization", "secret", "cookie", "c").GetRequestHeaders().GetHeaders(), cfg)
	want := map[string][]string{"X-Tenant": {"a", "b"}, "X-User-Tier": {"gold"}}
	if err != nil || !maps.EqualFunc(h.headers, want, func(a, b []string) bool { return cmp.Equal(a, b) }) {
		t.Errorf("kept %v, %v, want %v", h.headers, err, want)
	}
}

// A gateway whose filter does not fit gets an error with a name, and the log
// says what to do.
func TestMismatches(t *testing.T) {
	observing := post()
	observing.ObservabilityMode = true
	for _, tt := range []struct {
		name    string
		request mode
		ms      []*message
		want    string
	}{
		{"observability mode", fullDuplex, []*message{observing}, "observability_mode"},
		{"body first", fullDuplex, []*message{requestBody("x", false)}, "request_header_mode must be SEND"},
		{"trailers first", fullDuplex, []*message{requestTrailers()}, "request_header_mode must be SEND"},
		{"headers twice", fullDuplex, []*message{post(), post()}, "came twice"},
		{"headers after the response's", fullDuplex, []*message{jsonHead(), post()}, "after the response's"},
		{"a piece after the end", fullDuplex, []*message{post(), requestBody(chatBody, true), requestBody("x", false)}, "after its end"},
		{"an unknown mode", mode(17), []*message{post()}, "request_body_mode 17"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *site) {
				f := s.open(t, tt.request, tt.request)
				f.broken = true
				f.send(tt.ms...)
				if err := f.ends(); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("ended with %v, want %q", err, tt.want)
				}
				if log := s.log.String(); !strings.Contains(log, tt.want) || !strings.Contains(log, "does not fit") {
					t.Errorf("log %s, want %q", log, tt.want)
				}
				for _, r := range s.records(t) {
					if r.Outcome.State != explain.OutcomeDone || r.Outcome.Error == "" {
						t.Errorf("recorded as %+v", r.Outcome)
					}
				}
				if n := s.Stats().Mismatches; n != 1 {
					t.Errorf("%d mismatches are counted", n)
				}
				s.settled(t)
			})
		})
	}
}

func TestConfigValidate(t *testing.T) {
	err := (&Config{
		Fallbacks: -1, MaxBody: -2, MaxBodies: -3, MaxStreams: -4, MaxHeaders: -5, MaxHeaderBytes: -6,
		BodyTimeout: -7, IdleTimeout: -8, EndTimeout: -9, RetryAfter: -10,
	}).Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for i, name := range []string{"fallbacks", "maxBody", "maxBodies", "maxStreams", "maxHeaders", "maxHeaderBytes", "bodyTimeout", "idleTimeout", "endTimeout", "retryAfter"} {
		if want := name + ": must be ≥ 0, got -" + strconv.Itoa(i+1); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	for _, want := range []string{"picker: there is none", "clock: there is none"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if _, err := New(Config{}); err == nil || !strings.HasPrefix(err.Error(), "ext_proc: ") {
		t.Errorf("New: %v", err)
	}
}
