package llmdlog_test

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/llmdlog"
)

// lines are those of a captured log.
func lines(tb testing.TB, name string) []string {
	tb.Helper()
	f, err := os.Open("testdata/" + name + ".gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// parse reads a whole log.
func parse(opt llmdlog.Options, log []string) (*llmdlog.Parser, []*explain.Record) {
	p := llmdlog.New(opt)
	var records []*explain.Record
	for _, line := range log {
		p.Line([]byte(line))
		records = append(records, p.Take()...)
	}
	return p, append(records, p.Close()...)
}

func replays(t *testing.T, records []*explain.Record) {
	t.Helper()
	for _, rec := range records {
		if check, _, _ := explain.Replay(rec); !check.Identical {
			t.Errorf("%s: %s", rec.RequestID, check.Difference)
		}
	}
}

// requests are the rows of the table of what the client saw, by request ID.
func requests(t *testing.T) map[string][]map[string]string {
	t.Helper()
	f, err := os.Open("testdata/requests-a.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(bufio.NewReader(f))
	r.Comma, r.LazyQuotes = '\t', true
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]map[string]string{}
	for _, row := range rows[1:] {
		one := map[string]string{}
		for i, name := range rows[0] {
			one[name] = row[i]
		}
		out[one["request_id"]] = append(out[one["request_id"]], one)
	}
	return out
}

func TestEveryPickOfTheLogIsTheClients(t *testing.T) {
	t.Parallel()
	parser, records := parse(llmdlog.Options{}, lines(t, "a.jsonl"))
	if len(records) != 98 {
		t.Fatalf("%d records, want 98", len(records))
	}
	replays(t, records)
	got := map[string][]string{}
	for _, rec := range records {
		got[rec.RequestID] = append(got[rec.RequestID], rec.Result.Endpoint)
	}
	absent := 0
	for id, rows := range requests(t) {
		if len(got[id]) == 0 {
			absent += len(rows)
			if reason, _ := parser.Absent(id); reason == "" {
				t.Errorf("%s: no record, and no reason", id)
			}
			continue
		}
		for i, row := range rows {
			if i >= len(got[id]) || got[id][i] != row["endpoint"] {
				t.Errorf("%s: picks %q, the client was sent to %s", id, got[id], row["endpoint"])
			}
		}
	}
	if absent != 10 {
		t.Errorf("%d rows without a record, want 10", absent)
	}
	if n := len(got["same-id"]); n != 2 {
		t.Errorf("same-id has %d records, want 2", n)
	}
	if len(got[`odd id "7": tab/ü`]) != 1 {
		t.Errorf("no record of the odd ID: %q", slices.Sorted(maps.Keys(got)))
	}
	if s := parser.Stats(); s != (llmdlog.Stats{Lines: s.Lines, Read: 2931, Records: 98, Level: 4}) {
		t.Errorf("stats %+v", s)
	}
}

func TestAbsentSaysWhyThereIsNoPick(t *testing.T) {
	t.Parallel()
	a, _ := parse(llmdlog.Options{}, lines(t, "a.jsonl"))
	level2, _ := parse(llmdlog.Options{}, lines(t, "default.jsonl"))
	level3, _ := parse(llmdlog.Options{}, lines(t, "v3.jsonl"))
	middle, _ := parse(llmdlog.Options{}, lines(t, "a.jsonl")[270:])
	for _, tt := range []struct {
		log    *llmdlog.Parser
		id     string
		seen   bool
		reason string
	}{
		{a, "bad-json-1", true, "rejected: the body is not JSON (BadRequest, status 400)"},
		{a, "no-model-1", true, "rejected: the body names no model (BadRequest, status 400)"},
		{a, "messages-string-1", true, "rejected: the body has no valid messages (BadRequest, status 400)"},
		{a, "subset-empty-1", true, "rejected: no endpoint was a candidate: the pool is empty, or no endpoint is in the gateway's subset (ServiceUnavailable, status 503)"},
		{a, "models-1", true, "a request without a body: the picker took an endpoint at random and logs neither which nor why"},
		{a, "cancel-1", false, "no line of the log has this ID"},
		{a, "same-id", false, ""},
		{level2, "sample-1-turn-1", true, "at log level 2 picks are not logged: set -v=4"},
		{level3, "sample-1-turn-1", true, "but at log level 3 neither candidates nor scores are logged: set -v=4"},
		{middle, "conv-support-2-turn-2", true, "but the log has not all lines of the decision"},
	} {
		reason, seen := tt.log.Absent(tt.id)
		if seen != tt.seen || !strings.Contains(reason, tt.reason) || (tt.reason == "" && reason != "") {
			t.Errorf("%s: %v %q, want %v %q", tt.id, seen, reason, tt.seen, tt.reason)
		}
	}
	for want, p := range map[int]*llmdlog.Parser{2: level2, 3: level3, 4: a} {
		if got := p.Stats().Level; got != want {
			t.Errorf("level %d, want %d", got, want)
		}
	}
}

func TestEveryRunOfOtherLogsReplays(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"interleaved.jsonl": 83, "v0.9.0.jsonl": 10, "v0.10.0.jsonl": 10, "console.txt": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := lines(t, name)
			parser, records := parse(llmdlog.Options{}, log)
			if len(records) != want {
				t.Errorf("%d records, want %d: %+v", len(records), want, parser.Stats())
			}
			replays(t, records)
			for _, rec := range records {
				if o := rec.Origin; o.WeightsFrom != "the configuration in the log" || !o.Primary || o.Profile != "default" || o.Version == "" {
					t.Errorf("%s: origin %+v", rec.RequestID, o)
				}
			}
		})
	}
}

func TestWeightsOfALogWithoutItsStartAreSolved(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		// Caches were empty all the time there, so that two scorers always gave 1.
		"v0.9.0.jsonl": "assumed to be the defaults, which give all 36 totals of 9 runs",
		"a.jsonl":      "solved from",
	} {
		_, records := parse(llmdlog.Options{}, lines(t, name)[40:])
		replays(t, records)
		for _, rec := range records {
			if !strings.HasPrefix(rec.Origin.WeightsFrom, want) {
				t.Errorf("%s %s: weights %q, want %q", name, rec.RequestID, rec.Origin.WeightsFrom, want)
			}
			if w := rec.Weights.Custom; w[0].Weight != 2 || w[1].Weight != 2 || w[2].Weight != 3 {
				t.Errorf("%s %s: weights %v", name, rec.RequestID, w)
			}
		}
	}
}

func TestTracesInBetweenAreSkipped(t *testing.T) {
	t.Parallel()
	spans := slices.DeleteFunc(lines(t, "tracing.txt"), func(line string) bool { return llmdlog.Looks([]byte(line)) || line[0] == '{' })
	var mixed []string
	for i, line := range lines(t, "v0.10.0.jsonl") {
		mixed = append(mixed, spans[i%len(spans)], line, "{")
	}
	parser, records := parse(llmdlog.Options{}, mixed)
	if s := parser.Stats(); len(records) != 10 || s.Skipped != len(mixed)/3*2 || s.Malformed != 0 {
		t.Errorf("%d records, %+v", len(records), s)
	}
	replays(t, records)
}
