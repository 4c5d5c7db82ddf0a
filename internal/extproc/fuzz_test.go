package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"

	"github.com/eppctl/eppctl/internal/steering"
)

// play runs an exchange whose messages and end are given, one by one, and checks
// after each that all is answered that is due.
func (s *site) play(c *checker, ms []*message, end error) error {
	stream := newFakeStream(func() (*message, error) {
		c.due()
		if len(ms) == 0 {
			return nil, end
		}
		m := ms[0]
		ms = ms[1:]
		c.sent(m)
		return m, nil
	}, func(r *reply) { c.got(proto.CloneOf(r)) })
	err := s.Process(stream)
	c.closed(err == nil)
	return err
}

// forget gives up on all that wait for their end.
func (s *site) forget() {
	s.waiting.mu.Lock()
	ids := slices.Collect(maps.Keys(s.waiting.picks))
	s.waiting.mu.Unlock()
	for _, id := range ids {
		s.waiting.expire(id)
	}
}

// A script is a conversation as text, so that a fuzzer can change it: the two
// modes, how the stream ends, and then a letter for each message with a byte
// that says how it looks.
//
//	H B T   headers, body piece and trailers of the request
//	h b t   of the response
//	m a     metadata, attributes on the next message
//	o       observability mode on the next message
//	e       a message of no kind
type script struct {
	text    []byte
	in, out string // what is left of the bodies
	length  int    // of the body whose headers are made
}

func (s *script) byte() byte {
	if len(s.text) == 0 {
		return 0
	}
	b := s.text[0]
	s.text = s.text[1:]
	return b
}

var fuzzModes = []mode{none, streamed, buffered, bufferedPartial, fullDuplex, mode(17)}

// read makes messages of a script.
func (s *script) read() (c checker, ms []*message, end error) {
	request, response, how := s.byte(), s.byte(), s.byte()
	c = newChecker(fuzzModes[int(request)%len(fuzzModes)], fuzzModes[int(response)%len(fuzzModes)])
	if c.request.mode == mode(17) {
		c = newChecker(fullDuplex, fullDuplex) // that is what a gateway is taken for that does not tell
	} else {
		defer func() {
			if len(ms) > 0 {
				ms[0].ProtocolConfig = &extproc.ProtocolConfiguration{RequestBodyMode: c.request.mode, ResponseBodyMode: c.response.mode}
			}
		}()
	}
	if c.response.mode == mode(17) {
		c.response.mode = none
	}
	s.in = fmt.Sprintf(oddBody, "prod")
	s.out = strings.ReplaceAll(sseAnswer, `"m"`, `"org/base"`)
	next := &message{}
	for len(s.text) > 0 && len(ms) < 200 {
		kind, how := s.byte(), s.byte()
		m := s.message(kind, how)
		switch kind {
		case 'm':
			next.MetadataContext = fuzzHint(how)
			continue
		case 'a':
			next = told(next, map[string]any{
				"source.address": "1.2.3.4:5", "upstream.address": podAddress(int(how) % 5), "response.code": 200,
				"response.flags": float64(how) * 1e6, "upstream.request_attempt_count": -float64(how), "response.code_details": "d\x7f",
			})
			continue
		case 'o':
			next.ObservabilityMode = how == 1
			continue
		}
		m.MetadataContext, m.Attributes, m.ObservabilityMode = next.MetadataContext, next.Attributes, next.ObservabilityMode
		next = &message{}
		ms = append(ms, m)
	}
	return c, ms, []error{io.EOF, errors.New("canceled"), context.Canceled}[how%3]
}

func (s *script) message(kind, how byte) *message {
	last := how&1 > 0
	switch kind {
	case 'H':
		s.length = len(s.in)
		return requestHeaders(last, s.pairs(how, ":method", "POST", ":path", chatPath, steering.RequestID, "id")...)
	case 'B':
		return requestBody(s.piece(&s.in, how), last)
	case 'T':
		return requestTrailers(s.pairs(how)...)
	case 'h':
		s.length = len(s.out)
		return responseHeaders(last, s.pairs(how, ":status", "200", "content-type", "text/event-stream")...)
	case 'b':
		return responseBody(s.piece(&s.out, how), last)
	case 't':
		return responseTrailers(s.pairs(how)...)
	}
	return &message{}
}

// pairs adds odd headers by the bits of how.
func (s *script) pairs(how byte, pairs ...string) []string {
	for i, odd := range [][]string{
		nil,
		{steering.Destination, "6.6.6.6:6", "X-Prefiller-Host-Port", "a"},
		{"content-encoding", "gzip"},
		{"content-length", strconv.Itoa(s.length)},
		{":method", "GET", ":status", "503"},
		{steering.Model, "else", steering.RequestID, "\x01"},
		{"content-type", "application/json", ":path", "/v1/other?x"},
		{"", "", "x-h", strings.Repeat("v", 70_000)},
	} {
		if how&(1<<i) > 0 {
			pairs = append(pairs, odd...)
		}
	}
	return pairs
}

// piece is the next piece of a body, all of it, nothing, or noise.
func (s *script) piece(body *string, how byte) string {
	n := int(how>>1) & 0x1f
	switch how >> 6 {
	case 0:
		n = 0
	case 1:
		n = len(*body)
	case 3:
		noise := s.text[:min(n, len(s.text))]
		s.text = s.text[len(noise):]
		return string(noise)
	}
	n = min(n, len(*body))
	defer func() { *body = (*body)[n:] }()
	return (*body)[:n]
}

// scripts are all orders that a gateway keeps to, in all modes.
func scripts() [][]byte {
	var out [][]byte
	for request := range byte(6) {
		for response := range byte(6) {
			for _, ask := range []string{"H\x01", "H\x00B\x41", "H\x00B\x40B\x01", "H\x00B\x94B\x94B\x41", "H\x00B\x40T\x00", "H\x02T\x02", "H\x00m\x03B\x41", "H\x20B\x41", "H\x08B\x41", "H\x08B\x94B\x40B\x01", "H\x08B\x40T\x00", "H\x08B\x40", "H\x00B\xc7xyz", "H\x80", "H\x00", ""} {
				for _, answer := range []string{"h\x01", "h\x00b\x41", "a\x01h\x00b\x40b\x01", "h\x08b\x94b\x94b\x94b\x41", "h\x00b\x40t\x00", "h\x02t\x02", "h\x10b\x41", "h\x00b\x94", ""} {
					out = append(out, append([]byte{request, response, byte(len(out))}, ask+answer...))
				}
			}
		}
	}
	return out
}

// Whatever arrives: no panic, no stream that hangs, nothing held at the end, and
// as long as the gateway keeps to its rules, so does the picker.
func FuzzMessages(f *testing.F) {
	for i, text := range scripts() {
		if i%23 == 0 { // of all that TestScripts runs
			f.Add(text)
		}
	}
	f.Add([]byte("\x04\x04\x00h\x00b\x41"))                     // another filter's answer
	f.Add([]byte("\x04\x04\x00H\x00B\x41B\x41B\x01h\x00b\x41")) // case X2
	f.Add([]byte("\x02\x02\x00H\x00T\x00"))
	f.Add([]byte("\x04\x04\x00H\x00o\x01B\x41"))
	f.Add([]byte("\x04\x04\x00e\x00H\x00e\x00B\x41e\x00"))
	s := newSite(f, scripted)
	f.Fuzz(s.run)
}

func TestScripts(t *testing.T) {
	s := newSite(t, scripted)
	for _, text := range scripts() {
		if s.run(t, text); t.Failed() {
			t.Fatalf("%q", text)
		}
	}
}

func scripted(set *setup) {
	aliased(set)
	set.server.Fallbacks, set.server.ScoresMetadata = 2, true
	set.server.MaxBody = 4096
}

// run plays a script and looks at what it leaves behind.
func (s *site) run(t *testing.T, text []byte) {
	c, ms, end := (&script{text: text}).read()
	err := s.play(&c, ms, end)
	for _, fault := range c.faults {
		t.Error(fault)
	}
	if c.immediate == nil && !c.broken {
		c.request.same(t)
		c.response.same(t)
	}
	s.forget()
	s.settled(t)
	if s.Stats().Panics > 0 {
		t.Errorf("a panic: %s", s.log)
	}
	if t.Failed() {
		t.Logf("%v, ended with %v", ms, err)
	}
}

// fuzzHint is a subset hint, or metadata that is none.
func fuzzHint(how byte) *core.Metadata {
	switch how % 7 {
	case 0:
		return subset(nil)
	case 1:
		return subset([]any{podAddress(int(how) % 5), 7})
	case 2:
		return subset("")
	case 3:
		return subset(podAddress(1) + "," + podAddress(2))
	case 4:
		return metadata(namespaceLB, steering.Served, podAddress(int(how)%5))
	case 5:
		return subset(7)
	}
	return nil
}

// same fails unless all that came of a body goes on, but for the model's name.
// What an event stream that breaks off in it has held back may be missing.
func (s *side) same(tb testing.TB) {
	if s.void || s.mode == none || !s.ended && s.mode != bufferedPartial {
		return
	}
	name := func(text []byte) string {
		return strings.NewReplacer(`"prod"`, `"m"`, `"org/base"`, `"m"`, `"else"`, `"m"`).Replace(string(text))
	}
	got, want := name(s.body), name(slices.Concat(s.pieces...))
	if got != want && (s.mode != streamed || !s.trailers || !strings.HasPrefix(want, got)) {
		tb.Errorf("%q goes on as %q", want, got)
	}
}
