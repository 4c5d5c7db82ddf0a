package request

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// RewriteModel returns body with the value of its "model" exchanged for model
// and every other byte as it was. Of duplicate keys the last one is changed:
// it is the one that engines read. The body is not changed in place.
func RewriteModel(body []byte, model string) ([]byte, error) {
	from, to := -1, -1
	s := scanner{b: body}
	s.space()
	if s.peek() != '{' {
		return nil, invalid("body", "the body is not a JSON object")
	}
	err := s.object(0, func(key, value []byte) error {
		if keyIs(key, "model") {
			from, to = s.i-len(value), s.i
		}
		return nil
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, invalid("body", "the body is not valid JSON: %v", err)
	}
	if from < 0 {
		return nil, invalid("model", "there is no model to rewrite")
	}
	out := slices.Grow([]byte(nil), len(body)+len(model)+2)
	out = append(out, body[:from]...)
	out = appendQuoted(out, model)
	return append(out, body[to:]...), nil
}

// appendQuoted writes s as a JSON string, escaping no more than it must: what
// encoding/json does to <, > and & would be a change that nobody asked for.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = utf8.AppendRune(dst, r) // U+FFFD for what is not UTF-8
		}
	}
	return append(dst, '"')
}
