package llmdlog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/llmdlog"
)

// secret stands for a prompt. It is put where a picker's log quotes one.
const secret = "TOPSECRET"

// leak finds the secret in anything that comes out of a log.
func leak(tb testing.TB, p *llmdlog.Parser, records []*explain.Record, ids ...string) {
	tb.Helper()
	text, err := json.Marshal(records)
	if err != nil {
		tb.Fatalf("records that are no JSON: %v", err)
	}
	for _, id := range ids {
		reason, _ := p.Absent(id)
		text = append(text, reason...)
	}
	if strings.Contains(string(text), secret) {
		tb.Errorf("a prompt was copied: %.2000s", text)
	}
}

// quoting is a log that quotes the secret wherever a picker could.
func quoting() []string {
	s := simple(3, 2)
	s.start()
	s.received("ok")
	s.run("ok", "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 1)
	s.handled("ok", "10.0.0.1:8002")
	s.line("error", "parsing response", "ok", fields{"error", "invalid character " + secret})
	s.line("error", "Failed to process request", "ok", fields{"request", secret, "error", "inference error: " + secret + " - " + secret})
	for _, id := range []string{"a", "b", "c"} {
		s.received(id)
		s.line("error", "Error parsing request", id, fields{"error", "inference error: BadRequest - error unmarshaling request body " + secret})
		s.line("error", "Failed to process request", id, fields{"request", "request_body:{body:\"" + secret, "error", secret, "stacktrace", secret})
	}
	s.line("info", "Request dropped", "d", fields{"requestID", "d", "flowKey", secret, "outcome", secret, "err", secret})
	s.line("debug", secret, "e", fields{"prompt", secret})
	return s.lines
}

func TestPromptsAreNeverCopied(t *testing.T) {
	t.Parallel()
	p, records := parse(llmdlog.Options{}, quoting())
	if len(records) != 1 || records[0].Outcome.Error != "picker-error" {
		t.Fatalf("%d records", len(records))
	}
	leak(t, p, records, "a", "b", "c", "d", "e")
}

// The prompts of the captured log are known by a word that is in nothing else.
func TestPromptsOfTheCapturedLogAreNotCopied(t *testing.T) {
	t.Parallel()
	p, records := parse(llmdlog.Options{}, lines(t, "a.jsonl"))
	text, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	for id := range requests(t) {
		reason, _ := p.Absent(id)
		text = append(text, reason...)
	}
	for _, word := range []string{"invoice", "warehouse", "content", "stacktrace"} {
		if strings.Contains(string(text), word) {
			t.Errorf("%q is in what was read of the log", word)
		}
	}
}

func FuzzParser(f *testing.F) {
	s := simple(3, 2)
	s.start()
	s.received("r")
	s.run("r", "default", [][]float64{{0.2, 1.5, -1}, {0.7, 1, 0}}, 1)
	s.handled("r", "10.0.0.1:8002")
	s.answer("r", 2)
	f.Add([]byte(strings.Join(s.lines, "\n")), "unmarshaling - ")
	f.Add([]byte(strings.Join(s.lines[3:], "\n")), "x")
	f.Add([]byte(strings.Join(quoting(), "\n")), "x")
	f.Add([]byte(`{"level":"info","ts":1e400,"msg":"Running scheduler profile","x-request-id":"r"}`), "x")
	f.Add([]byte(`{"level":"info","ts":9,"msg":"parsed config","scheduler-config":"map[a:{Filters: [], Scorers: [x/y: NaN, z: 1e999], Picker: p}]"}`), "x")
	f.Fuzz(func(t *testing.T, log []byte, around string) {
		p := llmdlog.New(llmdlog.Options{})
		quoted := &script{}
		text := around + secret + around
		quoted.line("error", "Error parsing request", "q", fields{"error", text, "request", text})
		quoted.line("error", "Failed to process request", "q", fields{"error", "inference error: " + text, "prompt", secret})
		var records []*explain.Record
		for line := range strings.Lines(strings.Join(quoted.lines, "\n") + "\n" + string(log)) {
			llmdlog.Looks([]byte(line))
			p.Line([]byte(line))
			records = append(records, p.Take()...)
		}
		records = append(records, p.Close()...)
		for _, rec := range records {
			explain.Replay(rec)
		}
		if !strings.Contains(string(log), secret) {
			leak(t, p, records, "q", "r")
		}
		if n := p.Open(); n != 0 {
			t.Errorf("%d requests or candidates are kept after the end", n)
		}
	})
}
