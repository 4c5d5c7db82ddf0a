package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

const (
	// searchTimeout bounds a look-up, which may read files from end to end.
	searchTimeout = 60 * time.Second
	// maxCounted is where counting the decisions of one ID ends.
	maxCounted = 10_000
	// maxCandidates is how many of an ambiguous prefix are named.
	maxCandidates = 10
)

// lookup counts the decisions that an ID may mean and keeps the one that is
// asked for. A decision that has it as its whole ID pushes aside those that only
// begin with it.
type lookup struct {
	id  string
	nth int

	exact, begins matches
	refs          []Ref // of different requests that begin with id
}

type matches struct {
	count int
	nth   *explain.Record
}

func (m *matches) add(rec *explain.Record, nth int) {
	if m.count++; m.count == nth {
		m.nth = rec
	}
}

// visit looks at the next record, newest first, and reports whether to go on.
func (l *lookup) visit(rec *explain.Record) bool {
	if rec.DecisionID == l.id {
		l.exact = matches{1, rec}
		return false
	}
	if rec.RequestID == l.id {
		l.exact.add(rec, l.nth)
		return l.exact.count < maxCounted
	}
	l.begins.add(rec, l.nth)
	for i := range l.refs {
		if l.refs[i].RequestID == rec.RequestID {
			return true
		}
	}
	if len(l.refs) <= maxCandidates {
		l.refs = append(l.refs, refOf(rec))
	}
	return true
}

func (s *server) decision(w http.ResponseWriter, r *http.Request) error {
	l := lookup{id: r.PathValue("id"), nth: 1}
	values, err := single(r.URL.RawQuery, []string{"nth"})
	if err != nil {
		return err
	}
	if nth, given := values["nth"]; given {
		if l.nth, err = number("nth", nth, maxCounted); err != nil {
			return err
		}
	}
	if len(l.id) > maxParameter {
		return badRequest("the ID is longer than %d bytes", maxParameter)
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), searchTimeout, errors.New("the search took too long"))
	defer cancel()
	if l.id == Latest {
		return s.latest(ctx, w, r, &l)
	}
	if err := s.Decisions.Walk(ctx, record.Query{ID: l.id}, l.visit); err != nil {
		return err
	}
	return s.answerLookup(w, r, &l)
}

// Latest stands for the ID of the newest decision.
const Latest = record.Latest

// latest answers with the newest decision.
func (s *server) latest(ctx context.Context, w http.ResponseWriter, r *http.Request, l *lookup) error {
	if l.nth > 1 {
		return badRequest("parameter nth: only one decision is the latest")
	}
	err := s.Decisions.Walk(ctx, record.Query{}, func(rec *explain.Record) bool {
		l.exact.add(rec, l.nth)
		return l.exact.nth == nil
	})
	if err != nil {
		return err
	}
	if l.exact.nth == nil {
		return s.notFound("no decision recorded yet", "send a request through the gateway first")
	}
	return answer(w, r, DecisionLookup{document("DecisionLookup"), 1, 1, l.exact.nth})
}

func (s *server) answerLookup(w http.ResponseWriter, r *http.Request, l *lookup) error {
	found := l.exact
	if found.count == 0 {
		if len(l.refs) > 1 {
			return ambiguous(l)
		}
		found = l.begins
	}
	switch {
	case found.count == 0:
		return s.notFound("no decision recorded for request "+shown(l.id), "list recent decisions with 'eppctl decisions'")
	case found.nth == nil:
		return s.notFound(fmt.Sprintf("%d decisions recorded for request %s, there is no number %d", found.count, shown(l.id), l.nth), "number 1 is the newest")
	}
	return answer(w, r, DecisionLookup{document("DecisionLookup"), found.count, l.nth, found.nth})
}

func ambiguous(l *lookup) error {
	more := ""
	if len(l.refs) > maxCandidates {
		l.refs, more = l.refs[:maxCandidates], "more than "
	}
	e := fail(http.StatusConflict, CodeAmbiguous, fmt.Sprintf("%s%d requests have an ID that begins with %s", more, len(l.refs), shown(l.id))).
		hint("give more of the ID")
	e.doc.Candidates = l.refs
	return e
}

// notFound says that there is no such decision, and how far back it was looked for.
func (s *server) notFound(message, hint string) error {
	coverage, err := s.Decisions.Coverage()
	if err != nil {
		return err
	}
	e := fail(http.StatusNotFound, CodeNotFound, message).hint(hint)
	e.doc.Coverage = new(coverageOf(&coverage))
	return e
}
