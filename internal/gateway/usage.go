package gateway

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// usage is what an engine says of a request's tokens; −1 is unknown.
type usage struct{ prompt, cached, output int }

var unknownUsage = usage{prompt: -1, cached: -1, output: -1}

// maxUsage bounds the text of a usage object; a longer one stays unread.
const maxUsage = 64 << 10

// usageReader watches an answer for its usage. In a stream that reports usage
// with every chunk the last one counts.
type usageReader struct {
	scan   scanner
	text   []byte
	inside bool
	found  usage
}

func newUsageReader(sse bool) usageReader {
	return usageReader{scan: scanner{name: "usage", sse: sse}, found: unknownUsage}
}

// watch takes the next piece of the answer.
func (u *usageReader) watch(p []byte) {
	for len(p) > 0 {
		if n := max(u.scan.line(p), u.scan.idle(p)); n > 0 {
			u.inside = false
			p = p[n:]
			continue
		}
		c := p[0]
		p = p[1:]
		switch u.scan.step(c) {
		case value:
			u.take(c)
			continue
		case opened:
			u.text = u.text[:0]
		case closed:
			u.read()
		case other:
		}
		u.inside = false
	}
}

// take collects the value; of duplicate members the last one counts.
func (u *usageReader) take(c byte) {
	if !u.inside {
		u.inside, u.text = true, u.text[:0]
	}
	if len(u.text) <= maxUsage {
		u.text = append(u.text, c)
	}
}

// read ends a text: only what stood in a complete one is believed.
func (u *usageReader) read() {
	if len(u.text) > 0 && len(u.text) <= maxUsage {
		if got := parseUsage(u.text); got != unknownUsage {
			u.found = got
		}
	}
	u.text = u.text[:0]
}

// parseUsage reads OpenAI's usage object. Whatever is missing, null or not a
// count is unknown, each by itself.
func parseUsage(text []byte) usage {
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte{'{'}) { // mostly the null that engines send with every chunk but the last
		return unknownUsage
	}
	// Maps, because encoding/json matches fields of structs in any letter case.
	var doc, details map[string]json.RawMessage
	if json.Unmarshal(text, &doc) != nil {
		return unknownUsage
	}
	u := usage{prompt: tokens(doc["prompt_tokens"]), cached: -1, output: tokens(doc["completion_tokens"])}
	if json.Unmarshal(doc["prompt_tokens_details"], &details) == nil {
		u.cached = tokens(details["cached_tokens"])
	}
	if u.prompt >= 0 && u.cached > u.prompt {
		u.cached = -1 // one of them is wrong, and the prompt was counted by length
	}
	return u
}

// tokens is a count of tokens, −1 for anything else.
func tokens(text json.RawMessage) int {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return -1
	}
	return int(n)
}
