package admin

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/eppctl/eppctl/internal/record"
)

// Filter says which decisions are wanted; an empty field wants all.
type Filter struct {
	ID      string // a prefix of the request ID or the decision ID
	Pod     string // name or endpoint of the picked pod
	Model   string // as asked for or as resolved
	Adapter string
	// Since and Until are times (RFC 3339), or durations like 10m before the
	// picker's present, which need not be ours.
	Since, Until                  string
	Ties, Relaxed, Refused, Stale bool
	MinMargin                     float64
	Excluded                      string  // name or endpoint of a pod that could not win
	CacheBelow                    float64 // ratio, see [record.Query]
	Status                        string  // 429, or a class like 5xx
	FirstBlock                    string  // id of the prompts' first block, see [explain.Alike]
	// Limit is how many of the newest: default [DefaultLimit] in a list, all when
	// they are walked.
	Limit int
}

func (f *Filter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"id": f.ID, "pod": f.Pod, "model": f.Model, "adapter": f.Adapter, "since": f.Since, "until": f.Until,
		"excluded": f.Excluded, "status": f.Status, "firstBlock": f.FirstBlock,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, set := range map[string]bool{"ties": f.Ties, "relaxed": f.Relaxed, "refused": f.Refused, "stale": f.Stale} {
		if set {
			q.Set(name, "true")
		}
	}
	for name, value := range map[string]float64{"minMargin": f.MinMargin, "cacheBelow": f.CacheBelow} {
		if value != 0 {
			q.Set(name, strconv.FormatFloat(value, 'g', -1, 64))
		}
	}
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	return q
}

// FilterError says which field of a filter is wrong.
type FilterError struct {
	Field string // as in the API: since, status
	Err   error
}

// Error implements error.
func (e *FilterError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns what is wrong with it.
func (e *FilterError) Unwrap() error { return e.Err }

// Query is the filter for decisions that no picker is asked for: durations count
// back from now. Its error is a [*FilterError].
func (f *Filter) Query(now time.Time) (record.Query, error) {
	q := record.Query{
		ID: f.ID, Pod: f.Pod, Model: f.Model, Adapter: f.Adapter, Limit: f.Limit,
		Ties: f.Ties, Relaxed: f.Relaxed, Refused: f.Refused, Stale: f.Stale,
		MinMargin: f.MinMargin, Excluded: f.Excluded, CacheBelow: f.CacheBelow, FirstBlock: f.FirstBlock,
	}
	var err error
	if q.Since, err = parseMoment(f.Since, now); err != nil {
		return q, &FilterError{"since", err}
	}
	if q.Until, err = parseMoment(f.Until, now); err != nil {
		return q, &FilterError{"until", err}
	}
	if q.Status, err = record.ParseStatus(f.Status); err != nil {
		return q, &FilterError{"status", err}
	}
	if !(f.MinMargin >= 0) || math.IsInf(f.MinMargin, 1) { // other pickers' scores go beyond 1
		return q, &FilterError{"minMargin", errors.New("must be a number from 0 on")}
	}
	if q.CacheBelow, err = share(f.CacheBelow); err != nil {
		return q, &FilterError{"cacheBelow", err}
	}
	return q, nil
}

// parseMoment reads a time (RFC 3339), or a duration before now. "" is no bound.
func parseMoment(value string, now time.Time) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, value); err == nil {
		return t, nil
	}
	if d, err := time.ParseDuration(value); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%s is neither a duration like 10m nor a time like 2026-11-30T14:00:00Z", quoted(value))
}

// share is a number from 0 to 1.
func share(v float64) (float64, error) {
	if !(v >= 0 && v <= 1) {
		return 0, errors.New("must be a number from 0 to 1")
	}
	return v, nil
}
