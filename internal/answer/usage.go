package answer

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// Usage is what an engine says of a request's tokens; −1 is unknown.
type Usage struct{ Prompt, Cached, Output int }

// UnknownUsage is that of an engine that says nothing.
var UnknownUsage = Usage{Prompt: -1, Cached: -1, Output: -1}

// maxUsage bounds the text of a usage object; a longer one stays unread.
const maxUsage = 64 << 10

// UsageReader watches an answer for its usage. In a stream that reports usage
// with every chunk the last one counts.
type UsageReader struct {
	scan   scanner
	text   []byte
	inside bool
	found  Usage
}

// NewUsageReader makes a reader for one answer. In an [Opaque] one nothing is
// found.
func NewUsageReader(f Format) UsageReader {
	return UsageReader{scan: scanner{name: "usage", format: f}, found: UnknownUsage}
}

// Found is the usage that stood in what has passed so far.
func (u *UsageReader) Found() Usage { return u.found }

// Watch takes the next piece of the answer; it keeps no reference to it.
func (u *UsageReader) Watch(p []byte) {
	if u.scan.format == Opaque {
		return
	}
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
func (u *UsageReader) take(c byte) {
	if !u.inside {
		u.inside, u.text = true, u.text[:0]
	}
	if len(u.text) <= maxUsage {
		u.text = append(u.text, c)
	}
}

// read ends a text: only what stood in a complete one is believed.
func (u *UsageReader) read() {
	if len(u.text) > 0 && len(u.text) <= maxUsage {
		if got := parseUsage(u.text); got != UnknownUsage {
			u.found = got
		}
	}
	u.text = u.text[:0]
}

// parseUsage reads OpenAI's usage object. Whatever is missing, null or not a
// count is unknown, each by itself.
func parseUsage(text []byte) Usage {
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte{'{'}) { // mostly the null that engines send with every chunk but the last
		return UnknownUsage
	}
	if !json.Valid(text) {
		return UnknownUsage
	}
	u := UnknownUsage
	members(text, func(key, value []byte) {
		switch string(key) {
		case "prompt_tokens":
			u.Prompt = tokens(value)
		case "completion_tokens":
			u.Output = tokens(value)
		case "prompt_tokens_details":
			u.Cached = -1
			members(value, func(key, value []byte) {
				if string(key) == "cached_tokens" {
					u.Cached = tokens(value)
				}
			})
		}
	})
	if u.Prompt >= 0 && u.Cached > u.Prompt {
		u.Cached = -1 // one of them is wrong, and the prompt was counted by length
	}
	return u
}

// members walks the members of an object in valid JSON; of other values there
// are none. Keys are given as written, without their quotes: engines escape
// none.
func members(text []byte, member func(key, value []byte)) {
	if len(text) == 0 || text[0] != '{' {
		return
	}
	var key []byte
	depth, from := 0, 0 // from: where the value began
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			end := stringEnd(text, i)
			if depth == 1 && key == nil {
				key = text[i+1 : end]
			}
			i = end
		case '{', '[':
			depth++
		case ':':
			if depth == 1 {
				from = i + 1
			}
		case ',', '}', ']':
			if depth == 1 && key != nil {
				member(key, bytes.TrimSpace(text[from:i]))
				key = nil
			}
			if c != ',' {
				depth--
			}
		}
	}
}

// stringEnd is where the string that begins at i has its closing quote.
func stringEnd(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}

// tokens is a count of tokens, −1 for anything else.
func tokens(text []byte) int {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return -1
	}
	return int(n)
}
