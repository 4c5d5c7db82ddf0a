package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/steering"
)

// case B8
func TestBodyIsForwardedByteForByte(t *testing.T) {
	got := make(chan string, 1)
	s := newSite(t, nil, newPod(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- fmt.Sprintf("%d %s %s", r.ContentLength, r.RequestURI, body)
		answerJSON(w, r)
	}))
	for name, body := range map[string]string{
		"a number above 2^53":          `{"model":"m","prompt":"a","seed":9007199254740993}`,
		"1e400 in an ignored field":    `{"model":"m","prompt":"a","whatever":1e400}`,
		"duplicate keys":               `{"model":"x","prompt":"b","model":"m","prompt":"a"}`,
		"NUL and a lone surrogate":     `{"model":"m","prompt":"a\u0000\ud800b"}`,
		"odd spacing and line ends":    "{ \"model\" :\r\n\t\"m\" , \"prompt\":\"a\" }\n\n",
		"more than one piece of 32 KB": `{"model":"m","prompt":"` + strings.Repeat("long ", 50_000) + `"}`,
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, chunked %v", name, chunked), func(t *testing.T) {
				var src io.Reader = strings.NewReader(body)
				if chunked {
					src = io.MultiReader(src) // hides the length
				}
				res, text := s.do(t, s.request(t, http.MethodPost, textPath+"?a=1;b=%zz", src))
				want := fmt.Sprintf("%d %s %s", len(body), textPath+"?a=1;b=%zz", body)
				if diff := cmp.Diff(want, <-got); diff != "" {
					t.Errorf("what the pod got differs:\n%s", diff)
				}
				if res.StatusCode != http.StatusOK || text != jsonAnswer {
					t.Errorf("the client got %d %s, want what the pod sent", res.StatusCode, text)
				}
				if o := s.end(t); o.Error != "" || o.Status != http.StatusOK || o.PromptTokens != 9 || o.CachedTokens != 8 || o.OutputTokens != 4 {
					t.Errorf("outcome %+v, want 200 with 9, 8 and 4 tokens", o)
				}
			})
		}
	}
}

// case X5: usage in a stream, [DONE] in its own chunk
func TestStreamIsNotBuffered(t *testing.T) {
	seen := make(chan struct{})
	s := newSite(t, nil, newPod(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(contentType, "text/event-stream; charset=utf-8")
		for _, event := range []string{
			`data: {"choices":[{"delta":{"content":"a"}}],"usage":null}`,
			`data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":null}}`,
			`data: [DONE]`,
		} {
			io.WriteString(w, event+"\n\n")
			http.NewResponseController(w).Flush()
			<-seen // nothing more comes until the client has read this
		}
	}))
	body := `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`
	res, err := s.client.Do(s.request(t, http.MethodPost, chatPath, strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	events := 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data:") {
			events++
			seen <- struct{}{}
		}
	}
	if events != 3 || lines.Err() != nil {
		t.Errorf("%d events and %v, want 3 and none", events, lines.Err())
	}
	o := s.end(t)
	if o.PromptTokens != 7 || o.CachedTokens != -1 || o.OutputTokens != 1 {
		t.Errorf("outcome %+v, want 7 prompt tokens, cached unknown, 1 of output", o)
	}
	if o.TTFT <= 0 || o.TTFT > o.Duration {
		t.Errorf("first byte after %v of %v", o.TTFT, o.Duration)
	}
	rec := s.newest(t)
	if !rec.Request.Stream || rec.Outcome.State != explain.OutcomeDone || rec.Outcome.ServedEndpoint == "" {
		t.Errorf("record: stream %v, outcome %+v", rec.Request.Stream, rec.Outcome)
	}
}

func TestStreamHeadersComeBeforeTheBody(t *testing.T) {
	seen := make(chan struct{})
	s := newSite(t, nil, newPod(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(contentType, "text/event-stream")
		http.NewResponseController(w).Flush()
		<-seen
	}))
	res, err := s.client.Do(s.request(t, http.MethodPost, chatPath, strings.NewReader(chatBody)))
	if err != nil {
		t.Fatal(err)
	}
	close(seen)
	res.Body.Close()
	if got := res.Header.Get("X-Eppctl-Pod"); got != "pod-0" {
		t.Errorf("x-eppctl-pod is %q, want pod-0", got)
	}
	if o := s.end(t); o.TTFT != -1 {
		t.Errorf("first byte after %v, want unknown: there was none", o.TTFT)
	}
}

func TestRequestID(t *testing.T) {
	forwarded := make(chan []string, 1)
	s := newSite(t, nil, newPod(t, func(w http.ResponseWriter, r *http.Request) {
		forwarded <- r.Header[headerRequestID]
		w.Header().Set(headerRequestID, "the pod's own")
		answerJSON(w, r)
	}))
	for _, tt := range []struct {
		name, given string
		kept        bool
	}{
		{"the client's own", "turn-5", true},
		{"none", "", false},
		{"too long", strings.Repeat("x", 129), false},
		{"not ASCII", "tür", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := s.request(t, http.MethodPost, chatPath, strings.NewReader(chatBody))
			if tt.given != "" {
				r.Header.Set(headerRequestID, tt.given)
			}
			res, _ := s.do(t, r)
			ids := res.Header[headerRequestID]
			if len(ids) != 1 || !slices.Equal(ids, <-forwarded) {
				t.Fatalf("request IDs %q: want one, the same at the pod", ids)
			}
			if kept := ids[0] == tt.given; kept != tt.kept || !tt.kept && len(ids[0]) != 36 {
				t.Errorf("request ID %q for %q, kept %v", ids[0], tt.given, kept)
			}
			s.end(t)
			if rec := s.newest(t); rec.RequestID != ids[0] || rec.RequestIDReplaced != (!tt.kept && tt.given != "") {
				t.Errorf("record of %q, replaced %v", rec.RequestID, rec.RequestIDReplaced)
			}
		})
	}
	t.Run("on an error", func(t *testing.T) {
		r := s.request(t, http.MethodPost, chatPath, strings.NewReader("{"))
		r.Header.Set(headerRequestID, "bad-1")
		res, _ := s.do(t, r)
		if got := res.Header[headerRequestID]; res.StatusCode != http.StatusBadRequest || !slices.Equal(got, []string{"bad-1"}) {
			t.Errorf("%d with request IDs %q, want 400 with bad-1", res.StatusCode, got)
		}
	})
}

// case X6
func TestClientsCannotChooseThePod(t *testing.T) {
	var evil string
	got := make(chan http.Header, 1)
	address := newPod(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Clone()
		w.Header()["X-Eppctl-Endpoint"] = []string{"10.6.6.6:1", "10.6.6.6:2"}
		w.Header().Set("X-Gateway-Destination-Endpoint-Served", "10.6.6.6:3")
		w.Header().Set("X-Prefiller-Host-Port", "10.6.6.6:4")
		w.Header().Set("X-Envoy-Upstream-Service-Time", "7")
		w.Header().Set("X-Kept", "yes")
		w.Header().Set("Trailer", "X-Eppctl-Pod, X-Sum")
		answerJSON(w, r)
		w.Header().Set("X-Eppctl-Pod", "evil")
		w.Header().Set("X-Sum", "12")
	})
	s := newSite(t, nil, address)
	for _, name := range []string{
		"x-gateway-destination-endpoint", "X-GATEWAY-Destination-Endpoint", "x_gateway_destination_endpoint",
		"x-gateway-destination-endpoint-subset", "x-gateway-destination-endpoint-served", "X-Gateway-Destination-Endpoint-SCORES",
		"x-prefiller-host-port", "X-PREFILLER-HOST-PORT", "x-prefiller-url", "x-encoder-hosts-ports",
		"x-data-parallel-host-port", "X-data-parallel-rank", "x-kv-cache-source-host-port",
		"x-llm-d-model-name-rewrite", "x-llm-d-inference-objective", "x-llm-d-inference-fairness-id", "x-llm-d-prefiller-host-port",
		"x-gateway-model-name-rewrite", "x-gateway-inference-objective", "x-eppctl-endpoint", "x-eppctl-pod", "x-envoy-original-dst-host",
	} {
		evil += name + ": 10.6.6.6:6\r\n" + strings.ToUpper(name) + ": 10.6.6.6:7\r\n"
	}
	evil += "x-mine: 1\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: close, x-request-id\r\n"
	raw, err := net.Dial("tcp", s.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	fmt.Fprintf(raw, "POST %s HTTP/1.1\r\nHost: x\r\nTE: trailers\r\n%sContent-Length: %d\r\n\r\n%s", chatPath, evil, len(chatBody), chatBody)
	res, err := http.ReadResponse(bufio.NewReader(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	upstream := <-got
	for name, values := range upstream {
		if strings.Contains(fmt.Sprint(name, values), "10.6.6.6") || steering.Is(name) {
			t.Errorf("the pod got %s: %q", name, values)
		}
	}
	if upstream.Get("X-Mine") != "1" || upstream.Get(headerRequestID) == "" || upstream.Get("X-Forwarded-For") != "192.0.2.1, 127.0.0.1" {
		t.Errorf("the pod lacks what it should get: %v", upstream)
	}
	answer := res.Header.Clone()
	answer.Del("Date")
	answer.Del(headerRequestID)
	want := http.Header{
		contentType: {"application/json"}, "X-Kept": {"yes"},
		headerEndpoint: {address}, headerPod: {"pod-0"},
	}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Errorf("the client's headers differ:\n%s", diff)
	}
	if got := res.Trailer; got.Get("X-Eppctl-Pod") != "" || got.Get("X-Sum") != "12" {
		t.Errorf("trailers %v, want only X-Sum", got)
	}
	s.end(t)
}

// case B6, case X8
func TestRoutedWithoutAPrefix(t *testing.T) {
	got := make(chan string, 1)
	s := newSite(t, nil, newPod(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Encoding") + " " + string(body)
		answerJSON(w, r)
	}))
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, chatBody)
	z.Close()
	for _, tt := range []struct {
		name, method, path, coding, body, noPrefix string
	}{
		{"embeddings", "POST", "/v1/embeddings", "", `{"model":"m","input":"x"}`, "/v1/embeddings has no prompt prefix"},
		{"messages", "POST", "/v1/messages", "", `{"model":"m","messages":[]}`, "/v1/messages has no prompt prefix"},
		{"an unknown path with a body that is not JSON", "POST", "/some/where", "", "\x00\xff", "this path has no prompt prefix"},
		{"the list of models", "GET", "/v1/models", "", "", "/v1/models has no prompt prefix"},
		{"GET of a path that generates", "GET", chatPath, "", "", "only a POST has a prompt prefix"},
		{"gzip", "POST", chatPath, "gzip", zipped.String(), "a compressed body (gzip) has no prompt prefix that can be read"},
		{"a coding of the client's own making", "POST", chatPath, "secret", "abc", "an encoded body has no prompt prefix that can be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := s.request(t, tt.method, tt.path, strings.NewReader(tt.body))
			if tt.coding != "" {
				r.Header.Set("Content-Encoding", tt.coding)
			}
			if res, text := s.do(t, r); res.StatusCode != http.StatusOK {
				t.Fatalf("%d %s, want 200", res.StatusCode, text)
			}
			if want := tt.method + " " + tt.path + " " + tt.coding + " " + tt.body; <-got != want {
				t.Errorf("the pod did not get %q", want)
			}
			s.end(t)
			if rec := s.newest(t); rec.Request.NoPrefix != tt.noPrefix {
				t.Errorf("the record says %q, want %q", rec.Request.NoPrefix, tt.noPrefix)
			}
		})
	}
}

// case X8
func TestHundredHeadersOf8KB(t *testing.T) {
	s := newSite(t, nil, newPod(t, answerJSON))
	raw, err := net.Dial("tcp", s.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	go func() { // ends when the connection does
		fmt.Fprintf(raw, "POST %s HTTP/1.1\r\nHost: x\r\n", chatPath)
		for i := range 100 {
			if _, err := fmt.Fprintf(raw, "x-%d: %s\r\n", i, strings.Repeat("x", 8<<10)); err != nil {
				return
			}
		}
		io.WriteString(raw, "\r\n")
	}()
	res, err := http.ReadResponse(bufio.NewReader(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d, want 431", res.StatusCode)
	}
}

func TestUpgradesAreNotServed(t *testing.T) {
	got := make(chan string, 1)
	s := newSite(t, nil, newPod(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Upgrade") + r.Header.Get("Connection")
		answerJSON(w, r)
	}))
	r := s.request(t, http.MethodGet, "/v1/realtime", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	if res, _ := s.do(t, r); res.StatusCode != http.StatusOK || <-got != "" {
		t.Errorf("the upgrade was passed on, status %d", res.StatusCode)
	}
	s.end(t)
}

func TestScorersSeeAllowedHeadersOnly(t *testing.T) {
	h := http.Header{"X-Tier": {"gold", "old"}, "Authorization": {"Bearer s"}}
	want := map[string][]string{"X-Tier": {"gold", "old"}}
	if diff := cmp.Diff(want, allowed(h, []string{"X-Tier", "X-None"})); diff != "" {
		t.Error(diff)
	}
	if got := allowed(h, nil); got != nil {
		t.Errorf("without a list %v is allowed, want nothing", got)
	}
}
