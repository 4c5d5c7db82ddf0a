package record

import (
	"cmp"
	"fmt"
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
	Of             int       // decisions with that ID, fewer than were asked for
	Read           int       // decisions
	Oldest, Newest time.Time // of them
}

func (e *MissingError) Error() string {
	if e.ID == Latest {
		return "no decision recorded"
	}
	switch e.Of {
	case 0:
	case 1:
		return "only one decision recorded for request " + e.ID
	default:
		return fmt.Sprintf("only %d decisions recorded for request %s", e.Of, e.ID)
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

// Finder finds the decision that an ID stands for among those that it is shown, in
// any order: a request ID or decision ID, a prefix that only one request has, or
// [Latest].
type Finder struct {
	ID string
	// Past is what was passed, for the answer that it is not there.
	Past          Past
	exact, prefix []*explain.Record
}

// Query is what has to be shown: anything else is none of it.
func (f *Finder) Query() Query {
	if f.ID == Latest {
		return Query{}
	}
	return Query{ID: f.ID}
}

// See looks at a decision, which has been counted in Past.
func (f *Finder) See(rec *explain.Record) {
	switch {
	case f.ID == Latest: // whatever a client has called its request
		if len(f.exact) == 0 || !rec.Time.Before(f.exact[0].Time) {
			f.exact = []*explain.Record{rec}
		}
	case rec.RequestID == f.ID || rec.DecisionID == f.ID:
		f.exact = keep(f.exact, rec)
	case strings.HasPrefix(rec.RequestID, f.ID) || strings.HasPrefix(rec.DecisionID, f.ID):
		f.prefix = keep(f.prefix, rec)
	}
}

// keep adds a decision to a list that stays bounded: the newest are kept.
func keep(list []*explain.Record, rec *explain.Record) []*explain.Record {
	if list = append(list, rec); len(list) == 2*maxMatches {
		newestFirst(list)
		list = slices.Clone(list[:maxMatches])
	}
	return list
}

// Result is the decision, and how many have that request ID. nth is 1 for the
// newest of them. The error is a [*MissingError] or an [*AmbiguousError].
func (f *Finder) Result(nth int) (rec *explain.Record, count int, err error) {
	matches := f.exact
	if len(matches) == 0 {
		matches = f.prefix
	}
	newestFirst(matches)
	matches = distinct(matches)
	if ids := requestIDs(matches); len(ids) > 1 {
		return nil, 0, &AmbiguousError{f.ID, ids}
	}
	if nth = max(nth, 1); len(matches) < nth {
		return nil, len(matches), &MissingError{f.ID, len(matches), f.Past.Looked, f.Past.Oldest, f.Past.Newest}
	}
	return matches[nth-1], len(matches), nil
}

// newestFirst sorts; of the picks that another picker took for one request, that
// which it was sent by comes first.
func newestFirst(list []*explain.Record) {
	slices.SortStableFunc(list, func(a, b *explain.Record) int {
		return cmp.Or(b.Time.Compare(a.Time), part(a)-part(b))
	})
}

func part(rec *explain.Record) int {
	if rec.Origin == nil || rec.Origin.Primary {
		return 0
	}
	return 1
}

// distinct leaves one of the copies of a decision: one that tells the outcome.
func distinct(list []*explain.Record) (out []*explain.Record) {
	at := map[string]int{}
	for _, rec := range list {
		i, again := at[rec.DecisionID]
		switch {
		case !again || rec.DecisionID == "":
			at[rec.DecisionID] = len(out)
			out = append(out, rec)
		case out[i].Outcome.State == explain.OutcomePending:
			out[i] = rec
		}
	}
	return out
}

func requestIDs(list []*explain.Record) (ids []string) {
	seen := map[string]bool{}
	for _, rec := range list {
		if !seen[rec.RequestID] {
			seen[rec.RequestID] = true
			ids = append(ids, rec.RequestID)
		}
	}
	return ids
}
