package record

import (
	"errors"
	"io"
	"slices"

	"github.com/eppctl/eppctl/explain"
)

// Search is Finder over JSON Lines.
func Search(r io.Reader, id string, nth int) (rec *explain.Record, count int, err error) {
	f := Finder{ID: id}
	err = Each(r, Query{}, func(rec *explain.Record) error { f.Past.Passed(1, rec.Time, rec.Time); f.See(rec); return nil })
	if err != nil && !errors.Is(err, ErrTorn) {
		return nil, 0, err
	}
	return f.Result(nth)
}

// Each visits.
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

// Select selects.
func Select(r io.Reader, q Query) ([]*explain.Record, error) {
	var list []*explain.Record
	err := Each(r, q, func(rec *explain.Record) error {
		list = append(list, rec)
		if q.Limit > 0 && len(list) > 2*q.Limit {
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
