package llmdlog_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/llmdlog"
)

const (
	cache = "cache/prefix-cache-scorer"
	queue = "queue-scorer/queue-scorer"
	lora  = "lora/lora-affinity-scorer"
	best  = "best/max-score-picker"
)

func threePods() []endpoint {
	return []endpoint{{name: "pod-01", waiting: 3, running: 2, kv: 0.5}, {name: "pod-02"}, {name: "pod-03", unread: true}}
}

// simple is a picker of one profile with two scorers.
func simple(weights ...float64) *script {
	s := newScript(threePods()...)
	s.plugins["default"] = plugins{scorers: []scorer{{cache, weights[0]}, {queue, weights[1]}}, picker: best}
	return s
}

func TestTwoProfilesGiveARecordEach(t *testing.T) {
	t.Parallel()
	s := newScript(threePods()...)
	s.plugins["decode"] = plugins{
		filters: []filter{{"only-sim/label-selector-filter", []string{"pod-01", "pod-02", "pod-03"}}, {"decode-filter/by-label", []string{"pod-01", "pod-03"}}},
		scorers: []scorer{{cache, 3}, {queue, 0.35}}, picker: "best-two/max-score-picker",
	}
	s.plugins["prefill"] = plugins{
		filters: []filter{{"prefill-filter/by-label", []string{"pod-02"}}},
		scorers: []scorer{{queue, 1.5}}, picker: best,
	}
	s.start()
	s.received("r")
	s.run("r", "decode", [][]float64{{0.2, 0.8}, {0.7, 1}}, 1, 0)
	s.run("r", "prefill", [][]float64{{1}}, 0)
	s.handled("r", "10.0.0.1:8003,10.0.0.1:8001")
	s.answer("r", 3)
	_, records := parse(llmdlog.Options{}, s.lines)
	if len(records) != 2 {
		t.Fatalf("%d records, want 2", len(records))
	}
	replays(t, records)
	decode, prefill := records[0], records[1]
	if o := decode.Origin; o.Profile != "decode" || !o.Primary || !slices.Equal(o.Targets, []string{"10.0.0.1:8003", "10.0.0.1:8001"}) || decode.Result.Pod != "pod-03" {
		t.Errorf("decode: %+v, picked %s", o, decode.Result.Pod)
	}
	if o := prefill.Origin; o.Profile != "prefill" || o.Primary || prefill.Result.Pod != "pod-02" {
		t.Errorf("prefill: %+v, picked %s", o, prefill.Result.Pod)
	}
	want := map[string]string{"pod-01": "", "pod-02": "filter decode-filter/by-label", "pod-03": ""}
	for _, c := range decode.Candidates {
		if c.Reason != want[c.Pod] {
			t.Errorf("%s: excluded by %q, want %q", c.Pod, c.Reason, want[c.Pod])
		}
	}
	if decode.Weights.Custom[0] != (explain.CustomWeight{Name: "cache", Weight: 3}) || decode.DecisionID == prefill.DecisionID {
		t.Errorf("weights %v, IDs %s %s", decode.Weights.Custom, decode.DecisionID, prefill.DecisionID)
	}
}

func TestAPickerThatDrawsIsAPolicy(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.plugins["default"] = plugins{scorers: []scorer{{cache, 3}, {queue, 2}}, picker: "draw/weighted-random-picker"}
	s.start()
	s.run("r", "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 0)
	_, records := parse(llmdlog.Options{}, s.lines)
	replays(t, records)
	if r := records[0]; r.Policy != "weighted-random" || r.Result.Pod != "pod-01" || r.Result.Order[0] != 1 {
		t.Errorf("policy %s, picked %s, order %v", r.Policy, r.Result.Pod, r.Result.Order)
	}
}

func TestRawInputsStandInTheRecord(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.pods[0].adapters = []string{"m", "other"}
	s.start()
	s.received("r")
	s.run("r", "default", [][]float64{{0.2, 1.5, -0.25}, {0.7, 1, 0.4}}, 1)
	s.handled("r", "10.0.0.1:8002")
	s.answer("r", 3)
	_, records := parse(llmdlog.Options{}, s.lines)
	replays(t, records)
	rec := records[0]
	c, unread := rec.Candidates[0], rec.Candidates[2]
	if *c.Waiting.Value != 3 || *c.Running != 2 || *c.Load.Value != 0.5 || c.Adapters.Loaded != 2 || c.Adapters.Max != 4 || !c.Adapters.Match {
		t.Errorf("inputs %+v", c)
	}
	if age := c.Waiting.AgeSeconds; age < 0.2 || age > 0.3 {
		t.Errorf("age %v s, want about 0.25", age)
	}
	if unread.Waiting.State != "unknown" || unread.Running != nil || unread.Adapters.State != "unknown" {
		t.Errorf("a pod that was never read: %+v", unread)
	}
	if v := rec.Candidates[1].Custom[0]; v.State != "clamped" || *v.Value != 1.5 {
		t.Errorf("score 1.5 is %+v", v)
	}
	if v := unread.Custom[0]; v.State != "clamped" || *v.Value != 0 || v.Detail != "-0.25 in the log" {
		t.Errorf("score -0.25 is %+v", v)
	}
	if rec.Request.Adapter != "m" || !rec.Request.Stream {
		t.Errorf("request %+v", rec.Request)
	}
	o := rec.Outcome
	if o.State != explain.OutcomeUnknown || o.Status != 0 || *o.TTFTSeconds <= 0 || *o.DurationSeconds <= *o.TTFTSeconds {
		t.Errorf("outcome %+v", o)
	}
}

func TestAPickThatIsNotTheBestIsADifference(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.start()
	s.run("r", "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 0)
	_, records := parse(llmdlog.Options{}, s.lines)
	if check, _, _ := explain.Replay(records[0]); check.Identical || check.Difference != `pick: recorded "pod-01", replayed "pod-02"` {
		t.Errorf("identical %v, %q", check.Identical, check.Difference)
	}
}

func TestFilterThatLeavesNoneIsTheReason(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.plugins["default"] = plugins{filters: []filter{{"f/by-label", nil}}, scorers: []scorer{{cache, 3}}, picker: best}
	s.start()
	s.received("r")
	s.filter("r", "default")
	s.line("error", "Error handling request", "r", fields{"error", "inference error: ResourceExhausted - failed to run any scheduler profile for request SECRET"})
	s.line("error", "Failed to process request", "r", fields{"request", "SECRET", "error", "inference error: SECRET - SECRET"})
	p, records := parse(llmdlog.Options{}, s.lines)
	reason, ok := p.Absent("r")
	want := `rejected: no profile could run (ResourceExhausted, status 429); in profile "default" the filter f/by-label left none of 3 endpoints`
	if len(records) != 0 || !ok || reason != want {
		t.Errorf("%d records, reason %q, want %q", len(records), reason, want)
	}
}

func TestFlowControlThatDropsIsTheReason(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.start()
	s.received("r")
	s.line("info", "Request dropped", "", fields{"requestID", "r", "outcome", "EvictedTTL", "err", "SECRET"})
	p, _ := parse(llmdlog.Options{}, s.lines)
	if reason, ok := p.Absent("r"); !ok || reason != "rejected: by flow control: it waited for too long (EvictedTTL)" {
		t.Errorf("reason %q", reason)
	}
}

func TestRunsOfOneIDAtOnceGiveNoRecord(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.start()
	s.received("r")
	left := s.filter("r", "default")
	s.received("r")
	s.filter("r", "default")
	totals := s.score("r", "default", left, [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}})
	s.pick("r", "default", totals, 1)
	p, records := parse(llmdlog.Options{}, s.lines)
	reason, ok := p.Absent("r")
	if len(records) != 0 || !ok || !strings.HasPrefix(reason, "several requests of this ID") {
		t.Errorf("%d records, reason %q", len(records), reason)
	}
}

func TestARestartEndsWhatWasOpen(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.start()
	s.run("r", "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 1)
	s.received("half")
	s.filter("half", "default")
	s.plugins["default"] = plugins{scorers: []scorer{{cache, 1}, {queue, 1}}, picker: best}
	s.start()
	s.run("r", "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 1)
	p, records := parse(llmdlog.Options{}, s.lines)
	replays(t, records)
	if len(records) != 2 || records[1].Weights.Custom[0].Weight != 1 || p.Stats().Restarts != 1 {
		t.Errorf("%d records, %+v", len(records), p.Stats())
	}
	if reason, ok := p.Absent("half"); !ok || !strings.Contains(reason, "not all there") {
		t.Errorf("reason %q", reason)
	}
}

func TestPrefixesOfLines(t *testing.T) {
	t.Parallel()
	s := simple(3, 2)
	s.start()
	s.received("r")
	s.run("r", "default", [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0}}, 1)
	for name, prefix := range map[string]func(string) []string{
		"kubectl --prefix":     func(line string) []string { return []string{"[pod/epp-0/epp] " + line} },
		"kubectl --timestamps": func(line string) []string { return []string{"2026-11-30T00:57:39.534550461Z " + line} },
		"a tailer":             func(line string) []string { return []string{"epp-0 epp " + line} },
		"two replicas":         func(line string) []string { return []string{"[pod/epp-0/epp] " + line, "[pod/epp-1/epp] " + line} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log []string
			for _, line := range s.lines {
				log = append(log, prefix(line)...)
			}
			if !llmdlog.Looks([]byte(log[0])) {
				t.Errorf("%q does not look like a line of the log", log[0])
			}
			want := 1
			if name == "two replicas" {
				want = 2
			}
			p, records := parse(llmdlog.Options{}, log)
			replays(t, records)
			if len(records) != want || p.Stats().Malformed != 0 || p.Stats().Restarts != 0 {
				t.Errorf("%d records, want %d: %+v", len(records), want, p.Stats())
			}
			if want == 2 && (records[0].Origin.Log == records[1].Origin.Log || records[0].DecisionID == records[1].DecisionID) {
				t.Errorf("replicas can't be told apart: %+v", records[1].Origin)
			}
		})
	}
}

func TestOtherLinesDoNotLookLikeTheLog(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "{", `{"level":"info"}`, `{"time":"2026","level":"INFO","msg":"EPP received request"}`, "I1130 00:57 main.go] hello",
		`x{"level":"info","ts":1,"msg":"GIE build"}`, `{"level":"info","ts":1,"caller":"a","msg":"something else"}`,
		`time=2026 level=INFO msg="{\"level\":\"info\",\"ts\":1}"`, "\x00\xff", `{"level":"info","ts":1,"msg":"cut`,
	} {
		if llmdlog.Looks([]byte(line)) {
			t.Errorf("%q looks like a line of the log", line)
		}
	}
}

func TestRecordsSurviveJSON(t *testing.T) {
	t.Parallel()
	_, records := parse(llmdlog.Options{}, lines(t, "a.jsonl"))
	for _, rec := range records {
		text, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		var again explain.Record
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if check, _, _ := explain.Replay(&again); !check.Identical {
			t.Errorf("%s: %s", rec.RequestID, check.Difference)
		}
	}
}
