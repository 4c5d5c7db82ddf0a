package record

import (
	"context"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// Store is the ring and, when decisions are also written to files, the files
// behind it. A look-up falls through from the first to the second.
type Store struct {
	ring  *Ring
	files *Files // nil when none
}

// NewStore joins the two; files may be nil.
func NewStore(ring *Ring, files *Files) *Store { return &Store{ring, files} }

// Append records a decision, see [Ring.Append].
func (s *Store) Append(e *Entry) Handle { return s.ring.Append(e) }

// Complete joins the outcome to its record and hands that on to the files, unless
// another one follows. False when the record has left the ring: nobody will learn its outcome.
func (s *Store) Complete(h Handle, o *Outcome) bool {
	if !s.ring.Complete(h, o) {
		return false
	}
	if s.files != nil && !o.Unsettled {
		s.files.Completed(h)
	}
	return true
}

// Load makes the record of a handle, see [Ring.Load].
func (s *Store) Load(h Handle) (*explain.Record, bool) { return s.ring.Load(h) }

// Stats counts what is in the ring and what was written.
func (s *Store) Stats() (Stats, FilesStats) { return s.ring.Stats(), s.files.Stats() }

// Coverage says how far back a look-up reaches, for an answer like "nothing found".
type Coverage struct {
	Ring Stats
	// Recording: there are files, and Files says what they hold.
	Recording bool
	Files     FilesSpan
}

// Oldest is the arrival of the oldest decision that can be found; zero when
// there is none.
func (c *Coverage) Oldest() time.Time {
	if f := c.Files.Oldest; !f.IsZero() && (c.Ring.Oldest.IsZero() || f.Before(c.Ring.Oldest)) {
		return f
	}
	return c.Ring.Oldest
}

// Coverage looks at the ring and the files.
func (s *Store) Coverage() (Coverage, error) {
	c := Coverage{Ring: s.ring.Stats(), Recording: s.files != nil}
	if s.files == nil {
		return c, nil
	}
	var err error
	c.Files, err = s.files.Span()
	return c, err
}

// Found is the answer to a query.
type Found struct {
	// Records are newest first: those in the ring in the order of decision, then
	// those in files only, in the order of completion.
	Records []*explain.Record
	// Exact: the query's ID is the whole ID of all Records.
	Exact bool
	// More: there were more than the limit.
	More     bool
	Coverage Coverage
	// Scanned decisions and lines of files, and how many lines were none.
	Scanned, Damaged int
	// FirstDamage says what was wrong with the first of these.
	FirstDamage error
}

// Find looks for decisions, newest first, in the ring and then in the files. To
// find nothing is no error; Coverage then says where it was looked for.
func (s *Store) Find(ctx context.Context, q Query) (Found, error) {
	if q.Limit <= 0 {
		q.Limit = DefaultLimit
	}
	var exact, begins []*explain.Record
	seen, err := s.walk(ctx, &q, func(rec *explain.Record, m match) bool {
		list := &begins
		if m == exactMatch {
			list = &exact
		}
		if len(*list) <= q.Limit { // one more shows that there are more
			*list = append(*list, rec)
		}
		q.exactOnly = len(begins) > q.Limit
		return len(exact) <= q.Limit && (q.ID == "" || q.ID != rec.DecisionID)
	})
	out := Found{
		Records: exact, Exact: len(exact) > 0 && q.ID != "",
		Scanned: seen.Looked, Damaged: seen.Damaged, FirstDamage: seen.First,
	}
	if len(exact) == 0 {
		out.Records = begins
	}
	if out.More = len(out.Records) > q.Limit; out.More {
		out.Records = out.Records[:q.Limit]
	}
	if err != nil {
		return out, err
	}
	out.Coverage, err = s.Coverage()
	return out, err
}

// Walk visits matching decisions, newest first and each once, until visit returns
// false: for exports, which need no list in memory. An ID matches as a prefix,
// and Limit does not count.
func (s *Store) Walk(ctx context.Context, q Query, visit func(*explain.Record) bool) error {
	_, err := s.walk(ctx, &q, func(rec *explain.Record, _ match) bool { return visit(rec) })
	return err
}

func (s *Store) walk(ctx context.Context, q *Query, visit func(*explain.Record, match) bool) (Past, error) {
	var seen Past
	ids := map[string]struct{}{} // of what was in the ring: it may stand in a file as well
	going := true
	seen.Looked = s.ring.walk(q, func(rec *explain.Record) bool {
		if s.files != nil {
			ids[rec.DecisionID] = struct{}{}
		}
		h := headOf(rec)
		going = visit(rec, q.match(&h)) && ctx.Err() == nil
		return going
	})
	if ctx.Err() != nil {
		return seen, context.Cause(ctx)
	}
	if s.files == nil || !going {
		return seen, nil
	}
	err := s.files.walk(ctx, q, &seen, func(rec *explain.Record) bool {
		h := headOf(rec)
		m := q.match(&h)
		if _, twice := ids[rec.DecisionID]; twice || m == noMatch {
			return true
		}
		return visit(rec, m)
	})
	return seen, err
}
