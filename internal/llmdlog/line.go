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
	if _, rest, _, ok := cutCRI(line); ok {
		line = rest
	}
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

// part is a line of which a container runtime has written the beginning.
type part struct {
	text    []byte
	tooLong bool
}

// join puts the parts together in which a container runtime writes long lines to
// the node's files: "TIME stderr P …" and a last "TIME stderr F …". It reports
// false while parts are missing.
func (p *Parser) join(line []byte) ([]byte, bool) {
	stream, rest, last, ok := cutCRI(line)
	if !ok {
		return line, true
	}
	waiting := &p.parts[stream]
	if last && len(waiting.text) == 0 && !waiting.tooLong {
		return rest, true
	}
	if len(waiting.text)+len(rest) > maxLine {
		waiting.text, waiting.tooLong = nil, true
	}
	if !waiting.tooLong {
		waiting.text = append(waiting.text, rest...)
	}
	if !last {
		return nil, false
	}
	whole := *waiting
	*waiting = part{}
	if whole.tooLong {
		p.stats.Malformed++
		return nil, false
	}
	return whole.text, true
}

// cutCRI cuts the prefix of a container runtime's log file. The stream is 0 for
// stdout and 1 for stderr; last tells whether the line ends here.
func cutCRI(line []byte) (stream int, rest []byte, last, ok bool) {
	head, after, _ := bytes.Cut(line, []byte(" "))
	if len(head) > 64 || !isTime(string(head)) {
		return 0, nil, false, false
	}
	name, after, _ := bytes.Cut(after, []byte(" "))
	tag, rest, _ := bytes.Cut(after, []byte(" "))
	switch string(name) {
	case "stdout":
	case "stderr":
		stream = 1
	default:
		return 0, nil, false, false
	}
	if string(tag) != "F" && string(tag) != "P" {
		return 0, nil, false, false
	}
	return stream, rest, string(tag) == "F", true
}

var errTooMany = errors.New("too many elements")
