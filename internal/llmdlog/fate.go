package llmdlog

import (
	"encoding/json"
	"fmt"
	"strings"
)

// fate is how a request of the log went.
type fate struct {
	picked bool
	reason string // why no record was made of it
}

// fates are those of the last requests, in the order in which they ended.
type fates struct {
	byID  map[string]fate
	order []string // a ring once it is full
	next  int
}

// add notes a request's fate. A pick is not forgotten over another request of the
// same ID, nor a reason over a stray line.
func (f *fates) add(id string, one fate) {
	if old, known := f.byID[id]; known {
		if !old.picked && (one.picked || old.reason == "") {
			f.byID[id] = one
		}
		return
	}
	if len(f.order) < maxFates {
		f.order = append(f.order, id)
	} else {
		delete(f.byID, f.order[f.next])
		f.order[f.next] = id
		f.next = (f.next + 1) % maxFates
	}
	f.byID[id] = one
}

// lose notes why a pick can't be shown after all.
func (f *fates) lose(id, reason string) {
	if _, known := f.byID[id]; known {
		f.byID[id] = fate{reason: reason}
	}
}

// Absent says why there is no record of a request: it was rejected, or its pick is
// not in the log. It reports false for an ID that no line has, or that records were
// made of; the reason is then why an ID can be missing, or empty.
func (p *Parser) Absent(id string) (reason string, ok bool) {
	if p.stats.Disordered() {
		return "its lines are not in the order of time, oldest first: sort them", true
	}
	one, known := p.fates.byID[id]
	if known && one.picked {
		return "", false
	}
	for at := p.queue.Front(); at != nil; at = at.Next() {
		if r := at.Value.(*request); r.id == id {
			if !r.mixed && r.hasPick() {
				return "", false
			}
			one, known = fate{reason: r.why()}, true
		}
	}
	if known {
		return one.reason, true
	}
	return "no line of the log has this ID: the request did not reach this picker, was cancelled before its headers did, " +
		"or the log begins after it or ends before", false
}

// HowToSet says how a picker is made to log what records are made of.
const HowToSet = "set -v=4 (helm: router.epp.flags.v=4, in older charts inferenceExtension.flags.v=4; " +
	"else the flag in the container's args) and let the picker restart"

// why says why a request has no record.
func (r *request) why() string {
	switch {
	case r.rejection != "":
		return "rejected: " + r.rejection + r.emptied()
	case r.mixed:
		return "several requests of this ID were decided at the same time, and their lines can't be told apart"
	case r.done:
		return "picked " + r.endpoint + ", but " + r.unseen()
	case len(r.runs) > 0:
		return r.undecided()
	case !r.passed.IsZero() && r.proc.verbosity() < 4:
		return fmt.Sprintf("at log level %d picks are not logged: %s", r.proc.verbosity(), HowToSet)
	case !r.began:
		return "only a part of its lines is in the log, which begins after its decision or ends before"
	case !r.end.IsZero():
		return "a request without a body: the picker took an endpoint at random and logs neither which nor why"
	case r.model != "" || r.target != "":
		return "it arrived, but nothing was decided: cancelled while it waited, or the log ends before"
	}
	return "only its arrival is in the log: cancelled before the end of its body, or the log ends before"
}

// unseen says why nothing but the pick is known.
func (r *request) unseen() string {
	if level := r.proc.verbosity(); level < 4 {
		return fmt.Sprintf("at log level %d neither candidates nor scores are logged: %s", level, HowToSet)
	}
	return "the log has not all lines of the decision: it begins in the middle of it, or lines were lost"
}

// undecided says why profiles ran and nothing was picked.
func (r *request) undecided() string {
	if emptied := r.emptied(); emptied != "" {
		return "no pick" + emptied
	}
	if !r.began {
		return "the log begins in the middle of its decision"
	}
	return "the lines of its decision are not all there: lines were lost, or the log ends before"
}

// emptied names the filter that left no endpoint.
func (r *request) emptied() string {
	for _, run := range r.runs {
		if run.emptied != "" {
			return fmt.Sprintf("; in profile %q the filter %s left none of %d endpoints", run.profile, run.emptied, len(run.pods))
		}
	}
	return ""
}

// failed takes the reason of an error line: a known code and a known kind of text,
// never the text itself, which may quote the prompt.
func (r *request) failed(e *entry) {
	r.last, r.current = e.at, nil
	r.rejection = rejection(e.Error)
}

// refused is the last line of a request that was not passed on.
func (p *Parser) refused(proc *process, e *entry) {
	if e.ID == "" {
		return
	}
	r := p.find(proc, e.ID)
	if r == nil {
		r = p.begin(proc, e, e.ID)
	}
	if r.rejection == "" {
		r.failed(e)
	}
	p.close(r)
}

// flowControl is the end of a request's wait in the picker's queue.
func (r *request) flowControl(e *entry) {
	r.last = e.at
	if why := outcomes[e.Outcome]; why != "" && r.rejection == "" {
		r.rejection = why
	}
}

// dropped is flow control's own line, which has the ID under another key.
func (p *Parser) dropped(proc *process, e *entry) {
	id := e.ID
	if id == "" {
		id = e.RequestID
	}
	if r := p.find(proc, id); r != nil {
		r.flowControl(e)
	}
}

// outcomes are those of flow control by which a request was not dispatched.
var outcomes = map[string]string{
	"RejectedCapacity":        "by flow control: its queue is full (RejectedCapacity)",
	"RejectedOther":           "by flow control (RejectedOther)",
	"EvictedTTL":              "by flow control: it waited for too long (EvictedTTL)",
	"EvictedContextCancelled": "by flow control: the client went away while it waited (EvictedContextCancelled)",
	"EvictedNoEndpoints":      "by flow control: there was no endpoint (EvictedNoEndpoints)",
	"EvictedOther":            "by flow control (EvictedOther)",
}

// codes are the picker's error codes, with the status that the client got.
var codes = map[string]int{
	"BadRequest": 400, "Unauthorized": 401, "Forbidden": 403, "NotFound": 404, "PreconditionFailed": 412,
	"ResourceExhausted": 429, "InferencePoolResourceExhausted": 429, "Internal": 500, "ServiceUnavailable": 503,
}

// kinds are the kinds of error texts, by what they contain.
var kinds = []struct{ contains, means string }{
	{"error unmarshaling request body", "the body is not JSON"},
	{"model not found in request body", "the body names no model"},
	{"must have valid messages", "the body has no valid messages"},
	{"failed to find endpoint candidates", "no endpoint was a candidate: the pool is empty, or no endpoint is in the gateway's subset"},
	{"failed to run any scheduler profile", "no profile could run"},
	{"no endpoints available", "no endpoint was left"},
	{"rejected by flow control", "flow control rejected it"},
	{"timed out in queue", "it waited for too long in the queue"},
	{"client disconnected", "the client went away"},
	{"context canceled", "the client went away"},
	{"saturated", "the pool is saturated"},
}

// rejection puts an error into words of our own.
func rejection(raw json.RawMessage) string {
	err := text(raw)
	code, _, _ := strings.Cut(strings.TrimPrefix(err, "inference error: "), " - ")
	out := "for a reason that this version does not know"
	for _, kind := range kinds {
		if strings.Contains(err, kind.contains) {
			out = kind.means
			break
		}
	}
	if status := codes[code]; status > 0 {
		return fmt.Sprintf("%s (%s, status %d)", out, code, status)
	}
	return out
}
