package llmdlog

import (
	"bytes"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	opening = []byte(`{"level":"`)
	msgKey  = []byte(`"msg":"`)
	tsKey   = []byte(`"ts":`)
	idKey   = []byte(`"x-request-id":`)
)

// Nothing that a client chose stands before the message, so it begins soon.
const (
	maxPrefix = 512
	maxHeader = 1024
)

// Looks reports whether a line is one of such a log. It is cheap, and doesn't look
// beyond the line's head except for a request ID.
func Looks(line []byte) bool {
	_, body := strip(line)
	msg, ok := messageOf(body)
	if !ok {
		return false
	}
	_, known := messages[string(msg)]
	return known || bytes.Contains(body, idKey)
}

// messageOf is the message of a line as zap writes it: level, ts, logger, caller, msg.
func messageOf(body []byte) ([]byte, bool) {
	head := body[:min(len(body), maxHeader)]
	if !bytes.HasPrefix(head, opening) || !bytes.Contains(head, tsKey) {
		return nil, false
	}
	_, rest, _ := bytes.Cut(head, msgKey)
	msg, _, ok := bytes.Cut(rest, []byte{'"'})
	return msg, ok
}

// strip cuts what kubectl logs or a log shipper wrote before the line: "[pod/x/c] ",
// "x c ", a timestamp. The source is the prefix without timestamps: it names the
// process. A line that has none of the log's form in it has no body.
func strip(line []byte) (source string, body []byte) {
	at := bytes.Index(line[:min(len(line), maxPrefix+len(opening))], opening)
	if at <= 0 {
		if at < 0 {
			return "", nil
		}
		return "", line
	}
	if line[at-1] != ' ' && line[at-1] != '\t' || !utf8.Valid(line[:at]) {
		return "", nil
	}
	var words []string
	for word := range strings.FieldsSeq(string(line[:at])) {
		if strings.ContainsAny(word, `{"`) || strings.ContainsFunc(word, unicode.IsControl) {
			return "", nil
		}
		if !isTime(word) {
			words = append(words, word)
		}
	}
	const mostWords = 4
	if len(words) > mostWords {
		return "", nil
	}
	return strings.Join(words, " "), line[at:]
}

// isTime reports whether a word begins like an RFC 3339 time.
func isTime(word string) bool {
	const form = "0000-00-00T" // 0 stands for any digit
	if len(word) < len(form) {
		return false
	}
	for i := range len(form) {
		digit := word[i] >= '0' && word[i] <= '9'
		if form[i] == '0' && !digit || form[i] != '0' && word[i] != form[i] {
			return false
		}
	}
	return true
}

var errTooMany = errors.New("too many elements")
