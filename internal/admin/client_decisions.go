package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

// Decisions lists decisions, newest first.
func (c *Client) Decisions(ctx context.Context, f Filter) (*DecisionList, error) {
	doc := new(DecisionList)
	return doc, c.get(ctx, "/v1/decisions", f.query(), doc)
}

// Walk visits decisions, newest first, as they arrive, until visit fails; its
// error is returned as it is.
func (c *Client) Walk(ctx context.Context, f Filter, visit func(*explain.Record) error) error {
	query := f.query()
	query.Set("format", "jsonl")
	resp, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/decisions", query: query, accept: "application/jsonl"})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := record.NewReader(resp.Body); ; {
		rec, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return c.garbled(fmt.Errorf("the list broke off: %w", plain(err)))
		}
		if err := visit(rec); err != nil {
			return err
		}
	}
}

// Decision finds one decision by a unique prefix of its request or decision ID,
// or [Latest]. nth is 1 for the newest of those with the same request ID; 0
// counts as 1.
func (c *Client) Decision(ctx context.Context, id string, nth int) (*DecisionLookup, error) {
	if id == "" {
		return nil, errors.New("an empty request ID stands for no request")
	}
	var query url.Values
	if nth > 1 {
		query = url.Values{"nth": {strconv.Itoa(nth)}}
	}
	doc := new(DecisionLookup)
	if err := c.get(ctx, "/v1/decisions/"+segment(id), query, doc); err != nil {
		return nil, err
	}
	if doc.Item == nil {
		return nil, c.garbled(errors.New("the answer holds no decision"))
	}
	if err := record.Check(doc.Item); err != nil {
		return nil, c.garbled(fmt.Errorf("the answer holds no decision: %w", err))
	}
	return doc, nil
}

// segment escapes an ID as one segment of a path. The dots of "." and ".." are
// escaped as well: they would lead elsewhere.
func segment(id string) string {
	if escaped := url.PathEscape(id); strings.Trim(escaped, ".") != "" {
		return escaped
	}
	return strings.ReplaceAll(id, ".", "%2E")
}
