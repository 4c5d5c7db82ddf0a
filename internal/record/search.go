package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// Latest stands for the newest decision where an ID is asked for.
const Latest = "latest"

// maxMatches bounds how many decisions with one request ID, and how many request
// IDs with one prefix, a search keeps.
const maxMatches = 1000

// MissingError says that there is no such decision among those that were read.
type MissingError struct {
	ID             string
	Read           int       // decisions
	Oldest, Newest time.Time // of them
}

func (e *MissingError) Error() string {
	if e.ID == Latest {
		return "no decision recorded"
	}
	return fmt.Sprintf("no decision recorded for request %s", e.ID)
}

// AmbiguousError says that several requests have an ID that begins so.
type AmbiguousError struct {
	ID         string
	Candidates []string // request IDs, newest first
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%d requests have an ID that begins with %s", len(e.Candidates), e.ID)
}

// Search reads JSON Lines to the end and returns the decision that an ID stands
// for: a request ID or decision ID, a prefix that only one request has, or
// [Latest]. nth is 1 for the newest decision with that request ID, and count how
// many there are. A last line that is cut off is passed over.
func Search(r io.Reader, id string, nth int) (rec *explain.Record, count int, err error) {
	s := search{id: id}
	for lines := NewReader(r); ; {
		rec, err := lines.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, ErrTorn) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		s.see(rec)
	}
	return s.result(max(nth, 1))
}

// search is the state of [Search].
type search struct {
	id             string
	exact, prefix  []*explain.Record
	read           int
	oldest, newest *explain.Record
}

func (s *search) see(rec *explain.Record) {
	s.read++
	if s.oldest == nil || rec.Time.Before(s.oldest.Time) {
		s.oldest = rec
	}
	if s.newest == nil || !rec.Time.Before(s.newest.Time) {
		s.newest = rec
	}
	switch {
	case rec.RequestID == s.id || rec.DecisionID == s.id:
		s.exact = keep(s.exact, rec)
	case strings.HasPrefix(rec.RequestID, s.id) || strings.HasPrefix(rec.DecisionID, s.id):
		s.prefix = keep(s.prefix, rec)
	}
}

func keep(list []*explain.Record, rec *explain.Record) []*explain.Record {
	if len(list) == maxMatches {
		list = list[1:]
	}
	return append(list, rec)
}

func (s *search) result(nth int) (*explain.Record, int, error) {
	if s.id == Latest && s.newest != nil { // whatever a client has called its request
		return s.newest, 1, nil
	}
	matches := s.exact
	if len(matches) == 0 {
		matches = s.prefix
	}
	newestFirst(matches)
	if ids := requestIDs(matches); len(ids) > 1 {
		return nil, 0, &AmbiguousError{s.id, ids}
	}
	if len(matches) < nth {
		missing := &MissingError{ID: s.id, Read: s.read}
		if s.read > 0 {
			missing.Oldest, missing.Newest = s.oldest.Time, s.newest.Time
		}
		return nil, len(matches), missing
	}
	return matches[nth-1], len(matches), nil
}

func newestFirst(list []*explain.Record) {
	slices.SortStableFunc(list, func(a, b *explain.Record) int { return cmp.Compare(b.Time.UnixNano(), a.Time.UnixNano()) })
}

func requestIDs(list []*explain.Record) (ids []string) {
	for _, rec := range list {
		if !slices.Contains(ids, rec.RequestID) {
			ids = append(ids, rec.RequestID)
		}
	}
	return ids
}

// Each reads JSON Lines to the end and visits the decisions that a query wants, in
// the order of the file and one at a time, so that no file is too large; the query's
// Limit does not count. It stops at the first error of visit and returns that.
// [ErrTorn] comes after all decisions before the torn line.
func Each(r io.Reader, q Query, visit func(*explain.Record) error) error {
	for lines := NewReader(r); ; {
		rec, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h := headOf(rec); q.match(&h) == noMatch {
			continue
		}
		if err := visit(rec); err != nil {
			return err
		}
	}
}

// Select reads JSON Lines to the end and returns the decisions that a query
// wants, newest first. ErrTorn comes with all decisions before the torn line.
// Without a limit it holds all of them in memory, see [Each].
func Select(r io.Reader, q Query) ([]*explain.Record, error) {
	var list []*explain.Record
	err := Each(r, q, func(rec *explain.Record) error {
		list = append(list, rec)
		if q.Limit > 0 && len(list) > 2*q.Limit { // bounded: only the newest count
			newestFirst(list)
			list = slices.Clone(list[:q.Limit])
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrTorn) {
		return nil, err
	}
	newestFirst(list)
	if q.Limit > 0 && len(list) > q.Limit {
		list = list[:q.Limit]
	}
	return list, err
}
