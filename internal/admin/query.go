package admin

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/eppctl/eppctl/internal/record"
)

// The limits of a list.
const (
	DefaultLimit = record.DefaultLimit
	// MaxLimit is the longest list as one JSON document; JSON Lines have none.
	MaxLimit = 10_000

	// maxParameter is the longest value of a parameter, in bytes.
	maxParameter = 512
)

// parameters of GET /v1/decisions.
var parameters = []string{
	"adapter", "cacheBelow", "excluded", "firstBlock", "format", "id", "limit", "minMargin", "model", "pod", "refused", "relaxed", "since",
	"stale", "status", "ties", "until",
}

// listQuery is what a request for a list asks for.
type listQuery struct {
	record.Query
	lines bool // JSON Lines in place of one document
}

// parseList reads the parameters of a list. now is the picker's time. Errors
// name the parameter.
func parseList(raw string, now time.Time) (q listQuery, err error) {
	values, err := single(raw, parameters)
	if err != nil {
		return q, err
	}
	f := Filter{
		ID: values["id"], Pod: values["pod"], Model: values["model"], Adapter: values["adapter"],
		Since: values["since"], Until: values["until"], Excluded: values["excluded"], Status: values["status"],
		FirstBlock: values["firstBlock"],
	}
	for name, flag := range map[string]*bool{"ties": &f.Ties, "relaxed": &f.Relaxed, "refused": &f.Refused, "stale": &f.Stale} {
		if *flag, err = boolean(name, values[name]); err != nil {
			return q, err
		}
	}
	for name, v := range map[string]*float64{"minMargin": &f.MinMargin, "cacheBelow": &f.CacheBelow} {
		if text, given := values[name]; given {
			if *v, err = strconv.ParseFloat(text, 64); err != nil {
				return q, badRequest("parameter %s: must be a number, got %s", name, quoted(text))
			}
		}
	}
	if q.Query, err = f.Query(now); err != nil {
		return q, badRequest("parameter %s", err)
	}
	switch format := values["format"]; format {
	case "", "json":
	case "jsonl":
		q.lines = true
	default:
		return q, badRequest("parameter format: must be json or jsonl, got %s", quoted(format))
	}
	if limit, given := values["limit"]; given {
		if q.Limit, err = number("limit", limit, MaxLimit); err != nil {
			return q, err
		}
	}
	return q, nil
}

// single reads a query in which each of the known parameters may stand once.
func single(raw string, known []string) (map[string]string, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badRequest("the query can't be read: %s", quoted(raw))
	}
	out := make(map[string]string, len(values))
	for name, all := range values {
		switch value := all[0]; {
		case !slices.Contains(known, name):
			return nil, badRequest("parameter %s: unknown", quoted(name)).hint("known are " + strings.Join(known, ", "))
		case len(all) > 1:
			return nil, badRequest("parameter %s: given %d times", name, len(all))
		case len(value) > maxParameter:
			return nil, badRequest("parameter %s: longer than %d bytes", name, maxParameter)
		case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
			return nil, badRequest("parameter %s: holds control characters or no UTF-8", name)
		case value == "":
			return nil, badRequest("parameter %s: is empty", name).hint("leave it out to get all")
		default:
			out[name] = value
		}
	}
	return out, nil
}

func boolean(name, value string) (bool, error) {
	switch value {
	case "":
		return false, nil
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, badRequest("parameter %s: must be true or false, got %s", name, quoted(value))
}

// number reads a count from 1 to most.
func number(name, value string, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return 0, badRequest("parameter %s: must be a number from 1 to %d, got %s", name, most, quoted(value))
	}
	return n, nil
}
