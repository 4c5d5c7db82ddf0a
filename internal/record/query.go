package record

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
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
	// MinMargin is the least distance to the second; those without one are left out.
	MinMargin float64
	Stale     bool // only those whose engine had fewer cached tokens than predicted
	// Excluded is the name or endpoint of a pod that could not win.
	Excluded string
	// CacheBelow is what the picked pod's share of the prompt's blocks is to be
	// below, from 0 to 1; decisions for which it is not known are left out.
	CacheBelow float64
	Status     Status
	// FirstBlock is the id of the prompts' first block, as in [explain.Alike].
	FirstBlock string
	// Limit is how many of the newest are returned: default [DefaultLimit].
	Limit int

	exactOnly bool // enough of the others were found
}

// DefaultLimit of [Store.Find]: a record of many pods takes a megabyte.
const DefaultLimit = 100

// Status is a range of HTTP statuses, both ends included. The zero value is all.
type Status struct{ From, To int }

var statusText = regexp.MustCompile(`^[1-5](xx|\d\d)$`)

// ParseStatus reads a status like 429, or a class of them like 5xx. "" is all.
func ParseStatus(text string) (Status, error) {
	if text == "" {
		return Status{}, nil
	}
	if !statusText.MatchString(text) {
		return Status{}, fmt.Errorf("%.40q is neither a status like 429 nor a class like 5xx", text)
	}
	first := int(text[0]-'0') * 100
	if text[1:] == "xx" {
		return Status{first, first + 99}, nil
	}
	n, err := strconv.Atoi(text)
	return Status{n, n}, err
}

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

	// What few queries look at is read from one of these when they do.
	view view
	doc  *explain.Record
}

func (h *head) facts() facts {
	if h.doc != nil {
		return (*document)(h.doc)
	}
	v := h.view // a copy, so that a head costs no allocation
	return &v
}

// facts are what few queries look at, read only when they do.
type facts interface {
	row() explain.Row            // its margin, status and flags
	cacheRatio() (float64, bool) // of the pick; false when it is not known
	excluded(pod string) bool
	firstBlock() string // "" when there is none
}

// match is how well a record fits a query.
type match int

const (
	noMatch match = iota
	prefixMatch
	exactMatch
)

// Wants reports whether the query wants a decision. An ID matches as a prefix.
func (q *Query) Wants(rec *explain.Record) bool {
	h := headOf(rec)
	return q.match(&h) != noMatch
}

func (q *Query) match(h *head) match {
	switch {
	case !q.during(h.time),
		q.Pod != "" && q.Pod != h.pod && q.Pod != h.endpoint,
		q.Model != "" && q.Model != string(h.model) && q.Model != string(h.base),
		q.Adapter != "" && q.Adapter != string(h.adapter),
		q.Ties && !h.tie, q.Relaxed && !h.relaxed, q.Refused && !h.refused:
		return noMatch
	}
	m := q.matchID(h)
	if m != noMatch && !q.matchFacts(h) {
		return noMatch
	}
	return m
}

func (q *Query) matchFacts(h *head) bool {
	inRow := q.MinMargin > 0 || q.Stale || q.Status != (Status{})
	if !inRow && q.Excluded == "" && q.CacheBelow == 0 && q.FirstBlock == "" {
		return true
	}
	f := h.facts()
	if q.Excluded != "" && !f.excluded(q.Excluded) || q.FirstBlock != "" && f.firstBlock() != q.FirstBlock {
		return false
	}
	if ratio, known := f.cacheRatio(); q.CacheBelow > 0 && (!known || ratio >= q.CacheBelow) {
		return false
	}
	return !inRow || q.matchRow(f.row())
}

func (q *Query) matchRow(row explain.Row) bool {
	margin := row.Margin != nil && *row.Margin >= q.MinMargin
	status := row.Status != nil && *row.Status >= q.Status.From && *row.Status <= q.Status.To
	return (margin || q.MinMargin == 0) && (status || q.Status == (Status{})) &&
		(!q.Stale || slices.Contains(row.Flags, explain.FlagStale))
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
		state: v.raw[offState], saved: v.flag(flagSaved), view: *v,
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
		doc: r,
	}
	h.decisionID, _ = uuid.Parse(r.DecisionID) // another spelling than ours matches nothing
	for _, tie := range []score.DecidedBy{score.ByTieLoad, score.ByTieQueue, score.ByTieSeed} {
		h.tie = h.tie || r.Result.DecidedBy == tie.Name(nil)
	}
	return h
}
