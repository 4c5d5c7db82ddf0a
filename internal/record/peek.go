package record

import (
	"bytes"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// peeked is what stands at the head of a line.
type peeked struct {
	decisionID, requestID []byte
	time                  time.Time
}

// headStart begins a line as [Encode] writes it.
const headStart = `{"apiVersion":"` + explain.APIVersion + `","kind":"` + explain.KindDecision + `","decisionID":"`

// peek reads the head of a line as [Encode] writes it, at a hundredth of the cost
// of decoding it. ok is false for any other spelling: that has to be decoded.
func peek(line []byte) (h peeked, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(headStart))
	if !ok {
		return h, false
	}
	var stamp []byte
	for _, part := range []struct {
		text *[]byte
		next string
	}{{&h.decisionID, `","requestID":"`}, {&h.requestID, `","time":"`}, {&stamp, `",`}} {
		end := bytes.IndexByte(rest, '"')
		if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 || !bytes.HasPrefix(rest[end:], []byte(part.next)) {
			return h, false
		}
		*part.text, rest = rest[:end], rest[end+len(part.next):]
	}
	var err error
	h.time, err = time.Parse(time.RFC3339Nano, string(stamp))
	return h, err == nil
}

// MayWant is a look at a line of JSON before it is decoded: false when the query
// certainly does not want it. The arrival is zero when only decoding can tell it.
func (q *Query) MayWant(line []byte) (may bool, arrival time.Time) {
	h, ok := peek(line)
	if !ok {
		return q.mayMatch(line), arrival
	}
	return q.fits(&h) && bytes.Contains(line, []byte(q.FirstBlock)), h.time
}

// fits is false when the query certainly does not want a decision.
func (q *Query) fits(h *peeked) bool {
	return q.during(h.time) && (q.ID == "" || hasPrefix(h.requestID, q.ID) || hasPrefix(h.decisionID, q.ID))
}

func (q *Query) during(t time.Time) bool {
	return (q.Since.IsZero() || !t.Before(q.Since)) && (q.Until.IsZero() || t.Before(q.Until))
}

// mayMatch is a quick look at a line of JSON before it is decoded: false when the
// query's ID is certainly not in it.
func (q *Query) mayMatch(line []byte) bool {
	other := func(c rune) bool { return c < ' ' || c > '~' || strings.ContainsRune(`"\<>&`, c) }
	if strings.ContainsFunc(q.ID, other) {
		return true // it may be spelled in another way
	}
	return bytes.Contains(line, []byte(q.ID))
}
