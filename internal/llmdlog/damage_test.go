package llmdlog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/llmdlog"
)

func TestDamagedLinesAreCountedAndCostOneRecord(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.start()
	for i := range 3 {
		s.run(fmt.Sprint("r", i), "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 1)
	}
	at := slices.IndexFunc(s.lines, func(line string) bool {
		return strings.Contains(line, "Candidate pods") && strings.Contains(line, `"r1"`)
	})
	s.lines[at] = s.lines[at][:len(s.lines[at])/2]
	long := strings.Replace(s.lines[0], `"GIE build"`, `"GIE build","x":"`+strings.Repeat("y", 9<<20)+`"`, 1)
	p, records := parse(llmdlog.Options{}, append(s.lines, long, "\x00\x01\xff"))
	replays(t, records)
	if st := p.Stats(); len(records) != 2 || st.Malformed != 2 || st.Skipped != 1 || st.Restarts != 0 {
		t.Errorf("%d records, %+v", len(records), st)
	}
	if reason, ok := p.Absent("r1"); !ok || reason == "" {
		t.Errorf("r1 is absent with %q", reason)
	}
}

func TestRequestsWithoutAnEndAreGivenUp(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.start()
	s.run("cancelled", "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 1)
	s.at = s.at.Add(time.Hour)
	s.received("later")
	p := llmdlog.New(llmdlog.Options{})
	for _, line := range s.lines {
		p.Line([]byte(line))
	}
	records := p.Take()
	if len(records) != 1 || records[0].RequestID != "cancelled" {
		t.Fatalf("%d records before the end of the log, want the one of an hour ago", len(records))
	}
	if o := records[0].Outcome; o.State != explain.OutcomeUnknown || !strings.Contains(o.Detail, "no line of its end") {
		t.Errorf("outcome %+v", o)
	}
	if reason, ok := p.Absent("later"); !ok || !strings.Contains(reason, "only its arrival") {
		t.Errorf("an open request is absent with %q", reason)
	}
}

func TestStateIsBounded(t *testing.T) {
	t.Parallel()
	p := llmdlog.New(llmdlog.Options{})
	line := func(format string, args ...any) { p.Line(fmt.Appendf(nil, format, args...)) }
	for i := range llmdlog.MaxFates + llmdlog.MaxOpen + 10 {
		line(`{"level":"info","ts":1796000000,"msg":"EPP received request","x-request-id":"r%d"}`, i)
	}
	if n := p.Open(); n > 2*llmdlog.MaxOpen {
		t.Errorf("%d open requests, at most %d are kept", n/2, llmdlog.MaxOpen)
	}
	if n := p.Fates(); n != llmdlog.MaxFates {
		t.Errorf("%d fates, want %d", n, llmdlog.MaxFates)
	}
	var pods []string
	for i := range 4000 {
		pods = append(pods, fmt.Sprintf(`{"ID":{"Name":"p%d"}}`, i))
	}
	for i := range 40 {
		line(`{"level":"debug","ts":1796000001,"msg":"Before running filter plugins","x-request-id":"big%d","endpoints":[%s]}`, i, strings.Join(pods, ","))
	}
	if n := p.Open(); n > 2*llmdlog.MaxOpen+llmdlog.MaxOpenPods {
		t.Errorf("%d is kept, at most %d candidates", n, llmdlog.MaxOpenPods)
	}
	line(`{"level":"debug","ts":1796000001,"msg":"Before running filter plugins","x-request-id":"many","endpoints":[%s{}]}`, strings.Repeat("{},", 5000))
	if p.Stats().Malformed != 1 {
		t.Errorf("a run of 5001 endpoints was read: %+v", p.Stats())
	}
}

func TestLinesThatAreDoubledCountOnce(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.start()
	s.received("r")
	s.run("r", "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 1)
	s.handled("r", "10.0.0.1:8002")
	s.answer("r", 3)
	var doubled []string
	for _, line := range s.lines {
		doubled = append(doubled, line, line)
	}
	p, records := parse(llmdlog.Options{}, doubled)
	if len(records) != 1 || p.Stats().Doubled == 0 {
		t.Fatalf("%d records, want 1; %+v", len(records), p.Stats())
	}
	replays(t, records)
}

// A pick that has no total among the lines is none that can be explained: it must not
// pass for a refusal.
func TestAPickWithoutATotalIsNotShown(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.start()
	s.received("r")
	s.run("r", "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 1)
	s.handled("r", "10.0.0.1:8002")
	for i, line := range s.lines {
		if strings.Contains(line, "Candidate pods for picking") {
			s.lines[i] = strings.ReplaceAll(line, "pod-02", "pod-99")
		}
	}
	p, records := parse(llmdlog.Options{}, s.lines)
	if reason, ok := p.Absent("r"); len(records) != 0 || !ok || !strings.Contains(reason, "has not all lines of the decision") {
		t.Errorf("%d records, absent for %q, %v", len(records), reason, ok)
	}
}

func TestADecisionThatLostAScoreIsNotShown(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.start()
	for _, id := range []string{"whole", "torn"} {
		s.received(id)
		s.run(id, "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 1)
		s.handled(id, "10.0.0.1:8002")
	}
	at := slices.IndexFunc(s.lines, func(line string) bool {
		return strings.Contains(line, "Calculated score") && strings.Contains(line, `"torn"`) && strings.Contains(line, "pod-01")
	})
	p, records := parse(llmdlog.Options{}, slices.Delete(s.lines, at, at+1))
	if len(records) != 1 || records[0].RequestID != "whole" || p.Stats().Torn != 1 {
		t.Errorf("%d records, %+v", len(records), p.Stats())
	}
	if reason, ok := p.Absent("torn"); !ok || !strings.Contains(reason, "lines were lost") {
		t.Errorf("absent for %q, %v", reason, ok)
	}
}

func TestALogThatIsNewestFirstIsToldFrom(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.start()
	s.received("r")
	s.run("r", "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 1)
	s.handled("r", "10.0.0.1:8002")
	slices.Reverse(s.lines)
	p, records := parse(llmdlog.Options{}, s.lines)
	if reason, _ := p.Absent("r"); len(records) != 0 || !strings.Contains(reason, "not in the order of time") {
		t.Errorf("%d records, absent for %q", len(records), reason)
	}
}
