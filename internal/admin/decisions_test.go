package admin

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

func requestIDs(records []*explain.Record) []string {
	ids := []string{}
	for _, rec := range records {
		ids = append(ids, rec.RequestID)
	}
	return ids
}

func TestDecisionList(t *testing.T) {
	h := NewServer(newDeps())
	for _, test := range []struct {
		query string
		want  []string
		more  bool
	}{
		{"", []string{"refused", "twin", "twin", "beta", "alpha-2", "alpha"}, false},
		{"limit=2", []string{"refused", "twin"}, true},
		{"limit=6", []string{"refused", "twin", "twin", "beta", "alpha-2", "alpha"}, false},
		{"id=alpha", []string{"alpha-2", "alpha"}, false},
		{"id=d0000002", []string{"beta"}, false},
		{"pod=pod-2", []string{"beta"}, false},
		{"pod=10.0.0.2:8000", []string{"beta"}, false},
		{"model=qwen", []string{"beta"}, false},
		{"model=nobody", []string{}, false},
		{"refused=true", []string{"refused"}, false},
		{"relaxed=1&ties=0", []string{}, false},
		{"adapter=fr", []string{}, false},
		{"since=2026-11-30T10:00:04Z", []string{"refused", "twin"}, false},
		{"since=56s", []string{"refused", "twin"}, false},
		{"until=2026-11-30T10:00:01Z", []string{"alpha"}, false},
		{"status=5xx", []string{}, false},
		{"status=404", []string{}, false},
		{"minMargin=0.9", []string{}, false},
		{"minMargin=2.5", []string{}, false},
		{"stale=true", []string{}, false},
		{"excluded=pod-9", []string{}, false},
		{"cacheBelow=0.01", []string{"beta"}, false},
		{"since=59s&until=58s", []string{"alpha-2"}, false},
	} {
		t.Run(test.query, func(t *testing.T) {
			var list DecisionList
			decode(t, ask(t, h, request{path: "/v1/decisions?" + test.query}), &list)
			if diff := cmp.Diff(test.want, requestIDs(list.Items)); diff != "" || list.More != test.more {
				t.Errorf("more = %t, want %t; decisions (-want +got):\n%s", list.More, test.more, diff)
			}
			if list.Kind != "DecisionList" || list.Coverage.Ring.Decisions != 6 || list.Coverage.Ring.SpanSeconds != 5 {
				t.Errorf("coverage = %+v, want 6 decisions over 5 s", list.Coverage.Ring)
			}
		})
	}
}

func TestDecisionLines(t *testing.T) {
	h := NewServer(newDeps())
	for name, q := range map[string]request{
		"by parameter": {path: "/v1/decisions?format=jsonl&limit=5"},
		"by header":    {path: "/v1/decisions?limit=5", header: map[string]string{"Accept": "text/html, application/jsonl;q=0.9"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(t, h, q)
			if got := w.Header().Get("Content-Type"); got != "application/jsonl" {
				t.Errorf("content type = %q, want application/jsonl", got)
			}
			var records []*explain.Record
			lines := record.NewReader(w.Body)
			for range 5 {
				rec, err := lines.Next()
				if err != nil {
					t.Fatal(err)
				}
				if report := explain.Explain(rec, explain.Options{}); !report.Replay.Identical {
					t.Errorf("%s: replay = %+v, want identical", rec.RequestID, report.Replay)
				}
				records = append(records, rec)
			}
			if got, want := requestIDs(records), []string{"refused", "twin", "twin", "beta", "alpha-2"}; !slices.Equal(got, want) {
				t.Errorf("decisions = %v, want %v", got, want)
			}
		})
	}
	if w := ask(t, h, request{path: "/v1/decisions?format=json", header: map[string]string{"Accept": "application/jsonl"}}); w.Header().Get("Content-Type") != "application/json" {
		t.Error("format=json does not win over the Accept header")
	}
}

func TestBadParametersAreNamed(t *testing.T) {
	h := NewServer(newDeps())
	for query, want := range map[string]string{
		"limit=0":         `parameter limit: must be a number from 1 to 10000, got "0"`,
		"limit=ten":       `parameter limit: must be a number from 1 to 10000, got "ten"`,
		"limit=10001":     `parameter limit`,
		"limit=1&limit=2": `parameter limit: given 2 times`,
		"since=yesterday": `parameter since: "yesterday" is neither a duration like 10m nor a time like 2026-11-30T14:00:00Z`,
		"until=-5m":       `parameter until`,
		"ties=maybe":      `parameter ties: must be true or false, got "maybe"`,
		"format=xml":      `parameter format: must be json or jsonl, got "xml"`,
		"stale=x":         `parameter stale: must be true or false`,
		"status=6xx":      `parameter status: "6xx" is neither a status like 429 nor a class like 5xx`,
		"minMargin=-1":    `parameter minMargin: must be a number from 0 on`,
		"minMargin=NaN":   `parameter minMargin: must be a number from 0 on`,
		"cacheBelow=half": `parameter cacheBelow: must be a number, got "half"`,
		"colour=red":      `parameter "colour": unknown`,
		"pod=":            `parameter pod: is empty`,
		"pod=a%00b":       `parameter pod: holds control characters`,
		"model=%ff":       `parameter model: holds control characters or no UTF-8`,
		"pod=%zz":         `the query can't be read`,
		"a;b":             `the query can't be read`,
		"id=" + long(513): `parameter id: longer than 512 bytes`,
	} {
		t.Run(query[:min(len(query), 20)], func(t *testing.T) {
			w := ask(t, h, request{path: "/v1/decisions?" + query})
			var f Failure
			decode(t, w, &f)
			if w.Code != 400 || f.Error.Code != CodeBadRequest || !strings.Contains(f.Error.Message, want) {
				t.Errorf("answer = %d %+v, want 400 with %q", w.Code, f.Error, want)
			}
		})
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestLookup(t *testing.T) {
	h := NewServer(newDeps())
	for _, test := range []struct {
		path       string
		wantID     string // the decision's
		count, nth int
	}{
		{"beta", "d0000002", 1, 1},
		{"be", "d0000002", 1, 1},
		{"alpha", "d0000000", 1, 1}, // the whole ID pushes aside alpha-2
		{"alpha-", "d0000001", 1, 1},
		{"twin", "d0000004", 2, 1},
		{"tw", "d0000004", 2, 1},
		{"twin?nth=2", "d0000003", 2, 2},
		{"d0000003", "d0000003", 1, 1},
		{"d0000003-0000-4000-8000-000000000000", "d0000003", 1, 1},
		{"latest", "d0000005", 1, 1},
	} {
		t.Run(test.path, func(t *testing.T) {
			w := ask(t, h, request{path: "/v1/decisions/" + test.path})
			if w.Code != 200 {
				t.Fatalf("answer = %d %s", w.Code, w.Body)
			}
			var got DecisionLookup
			decode(t, w, &got)
			if !strings.HasPrefix(got.Item.DecisionID, test.wantID) || got.Count != test.count || got.Nth != test.nth {
				t.Errorf("lookup = %s, %d of %d; want %s, %d of %d", got.Item.DecisionID, got.Nth, got.Count, test.wantID, test.nth, test.count)
			}
		})
	}
}

func TestLookupFailures(t *testing.T) {
	for _, test := range []struct {
		path   string
		status int
		want   string
	}{
		{"zz", 404, "no decision recorded for request zz"},
		{"%C3%A9%0A", 404, `no decision recorded for request "\u00e9\n"`},
		{"twin?nth=3", 404, "2 decisions recorded for request twin, there is no number 3"},
		{"al", 409, "2 requests have an ID that begins with al"},
		{"d0", 409, "5 requests have an ID that begins with d0"},
		{"twin?nth=0", 400, "parameter nth: must be a number from 1"},
		{"latest?nth=2", 400, "parameter nth: only one decision is the latest"},
		{"twin?n=1", 400, `parameter "n": unknown`},
		{long(513), 400, "the ID is longer than 512 bytes"},
	} {
		t.Run(test.path[:min(len(test.path), 20)], func(t *testing.T) {
			w := ask(t, NewServer(newDeps()), request{path: "/v1/decisions/" + test.path})
			var f Failure
			decode(t, w, &f)
			if w.Code != test.status || !strings.Contains(f.Error.Message, test.want) {
				t.Errorf("answer = %d %+v, want %d with %q", w.Code, f.Error, test.status, test.want)
			}
			if (f.Coverage != nil) != (test.status == 404) || (len(f.Candidates) > 0) != (test.status == 409) {
				t.Errorf("coverage %v, candidates %v: want the first with 404, the second with 409", f.Coverage, f.Candidates)
			}
		})
	}
}

func TestLatestOfNothing(t *testing.T) {
	deps := newDeps()
	deps.Decisions = record.NewStore(record.NewRing(record.RingConfig{}), nil)
	w := ask(t, NewServer(deps), request{path: "/v1/decisions/latest"})
	var f Failure
	decode(t, w, &f)
	if w.Code != 404 || f.Error.Message != "no decision recorded yet" || f.Coverage == nil || f.Coverage.Oldest != nil {
		t.Errorf("answer = %d %+v, want 404 with an empty coverage", w.Code, f)
	}
}

func TestManyCandidatesAreCutOff(t *testing.T) {
	ring := record.NewRing(record.RingConfig{})
	for n := range 30 {
		decide(ring, n, fmt.Sprintf("req-%02d", n), "llama", pod("pod-1", 0, 0))
	}
	deps := newDeps()
	deps.Decisions = record.NewStore(ring, nil)
	var f Failure
	decode(t, ask(t, NewServer(deps), request{path: "/v1/decisions/req"}), &f)
	if len(f.Candidates) != maxCandidates || f.Error.Message != "more than 10 requests have an ID that begins with req" || f.Candidates[0].RequestID != "req-29" {
		t.Errorf("answer = %+v, want the %d newest candidates", f, maxCandidates)
	}
}

func TestARecorderThatFails(t *testing.T) {
	var log bytes.Buffer
	deps := newDeps()
	deps.Logger = logTo(&log)
	deps.Decisions = broken{err: errors.New("read /var/lib/epp: I/O error")}
	h := NewServer(deps)
	for _, path := range []string{"/v1/decisions", "/v1/decisions?format=jsonl", "/v1/decisions/beta", "/v1/decisions/latest"} {
		w := ask(t, h, request{path: path})
		var f Failure
		decode(t, w, &f)
		if w.Code != 500 || f.Error.Code != CodeInternal || strings.Contains(f.Error.Message, "/var/lib") {
			t.Errorf("%s = %d %+v, want 500 without the path", path, w.Code, f.Error)
		}
	}
	if !strings.Contains(log.String(), "I/O error") {
		t.Errorf("log = %s, want the error in it", log.String())
	}
}

func FuzzParseList(f *testing.F) {
	for _, seed := range []string{
		"", "limit=5", "since=10m&until=2026-11-30T10:00:00Z", "ties=true&relaxed=0", "id=%00", "format=jsonl", "a=b&a=c", "%", "since=9999999h",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseList(raw, start)
		if err != nil {
			failure, ok := errors.AsType[*apiError](err)
			if !ok || failure.status != 400 || failure.Error() == "" {
				t.Fatalf("parseList(%q) failed with %T %v, want a 400", raw, err, err)
			}
			return
		}
		if q.Limit < 0 || q.Limit > MaxLimit || len(q.ID) > maxParameter || strings.ContainsRune(q.Pod, 0) {
			t.Fatalf("parseList(%q) = %+v, out of bounds", raw, q)
		}
		values, _ := url.ParseQuery(raw)
		if values.Get("since") == "" && !q.Since.Equal(time.Time{}) {
			t.Fatalf("parseList(%q).Since = %v, want none", raw, q.Since)
		}
	})
}
