package record

import (
	"bytes"
	"time"

	"github.com/google/uuid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// Query says which decisions are wanted; an empty field wants all.
type Query struct {
	// ID is a prefix of the request ID or the decision ID. Decisions that have it
	// as their whole ID push aside those that only begin with it.
	ID      string
	Pod     string // name or endpoint of the picked pod
	Model   string // as asked for or as resolved
	Adapter string // as resolved
	// Since and Until bound the arrival; Until itself is not included.
	Since, Until time.Time
	Ties         bool // only ties in the score
	Relaxed      bool // only decisions with the cutoff relaxed
	Refused      bool // only refused ones
	// Limit is how many of the newest are returned: default [DefaultLimit].
	Limit int

	exactOnly bool // enough of the others were found
}

// DefaultLimit of [Store.Find]: a record of many pods takes a megabyte.
const DefaultLimit = 100

// head is what queries look at.
type head struct {
	decisionID    [16]byte
	requestID     []byte
	model, base   []byte
	adapter       []byte
	pod, endpoint string // of the pick
	time          time.Time
	tie           bool
	relaxed       bool
	refused       bool
	state         uint8
	saved         bool
}

// match is how well a record fits a query.
type match int

const (
	noMatch match = iota
	prefixMatch
	exactMatch
)

func (q *Query) match(h *head) match {
	switch {
	case !q.Since.IsZero() && h.time.Before(q.Since),
		!q.Until.IsZero() && !h.time.Before(q.Until),
		q.Pod != "" && q.Pod != h.pod && q.Pod != h.endpoint,
		q.Model != "" && q.Model != string(h.model) && q.Model != string(h.base),
		q.Adapter != "" && q.Adapter != string(h.adapter),
		q.Ties && !h.tie, q.Relaxed && !h.relaxed, q.Refused && !h.refused:
		return noMatch
	}
	return q.matchID(h)
}

func (q *Query) matchID(h *head) match {
	if q.ID == "" || q.ID == string(h.requestID) {
		return exactMatch
	}
	m := noMatch
	if !q.exactOnly && hasPrefix(h.requestID, q.ID) {
		m = prefixMatch
	}
	if q.ID[0] != hexDigits[h.decisionID[0]>>4] { // most differ in the first digit
		return m
	}
	switch id := uuidText(h.decisionID); {
	case q.ID == string(id[:]):
		return exactMatch
	case !q.exactOnly && hasPrefix(id[:], q.ID):
		return prefixMatch
	}
	return m
}

func hasPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix
}

// head reads from the bytes what queries look at. It is valid as long as they are.
func (v *view) head() head {
	texts, _ := v.strings()
	h := head{
		decisionID: [16]byte(v.raw[offID:]),
		requestID:  texts[strRequestID], model: texts[strModel], base: texts[strBase],
		adapter: texts[strAdapter], time: timeOf(v.raw),
		tie:     score.DecidedBy(int16(le.Uint16(v.raw[offDecided:]))).Tie(),
		relaxed: v.flag(flagRelaxed), refused: v.raw[offRefused] != uint8(score.Picked),
		state: v.raw[offState], saved: v.flag(flagSaved),
	}
	if picked := getInt32(v.raw[offPicked:]); picked >= 0 {
		h.pod, h.endpoint = v.roster.pod(picked), v.roster.endpoint(picked)
	}
	return h
}

// headOf reads the same from a document.
func headOf(r *explain.Record) head {
	h := head{
		requestID: []byte(r.RequestID), model: []byte(r.Request.Model), base: []byte(r.Request.Base),
		adapter: []byte(r.Request.Adapter), pod: r.Result.Pod, endpoint: r.Result.Endpoint, time: r.Time,
		relaxed: r.Result.Relaxed, refused: r.Result.Refused != "", state: stateDone, saved: true,
	}
	h.decisionID, _ = uuid.Parse(r.DecisionID) // another spelling than ours matches nothing
	for _, tie := range []score.DecidedBy{score.ByTieLoad, score.ByTieQueue, score.ByTieSeed} {
		h.tie = h.tie || r.Result.DecidedBy == tie.Name(nil)
	}
	return h
}

// mayMatch is a quick look at a line of JSON before it is decoded: false when the
// query's ID is certainly not in it.
func (q *Query) mayMatch(line []byte) bool {
	for i := range len(q.ID) {
		if c := q.ID[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return true // it may be spelled in another way
		}
	}
	return bytes.Contains(line, []byte(q.ID))
}
