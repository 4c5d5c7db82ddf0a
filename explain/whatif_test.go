package explain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/score"
)

// edits reads "KEY=VALUE" separated by spaces.
func edits(t interface{ Fatal(...any) }, text string) []explain.Edit {
	var out []explain.Edit
	for word := range strings.FieldsSeq(text) {
		e, err := explain.ParseEdit(word)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func whatIf(t *testing.T, rec *explain.Record, changes string) *explain.Comparison {
	t.Helper()
	c, err := explain.WhatIf(rec, edits(t, changes))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// foreign is a decision of a picker that knows custom factors alone, whose
// weights sum to what they like.
func foreign() scene {
	answers := func(name string, values ...float64) score.FactorValues {
		out := score.FactorValues{Name: name}
		for _, v := range values {
			out.Values = append(out.Values, score.Scored(v, ""))
		}
		return out
	}
	return scene{
		edit: func(rec *explain.Record) {
			rec.Origin = &explain.Origin{Kind: "llm-d", Primary: true, Picker: "max-score-picker/max-score-picker", Targets: []string{rec.Result.Endpoint}}
		},
		pods:    []score.PodState{score.NewPod("vllm-0", "10.0.0.1:8000"), score.NewPod("vllm-1", "10.0.0.2:8000")},
		weights: score.Weights{MaxQueue: 20, MaxUtilization: 1, Custom: []score.CustomWeight{{Name: "prefix-cache-scorer", Weight: 3}, {Name: "queue-scorer", Weight: 2}}},
		extra:   []score.FactorValues{answers("prefix-cache-scorer", .9, .5), answers("queue-scorer", 0, .5)},
	}
}

// questions are what-ifs about scenes: a name, the scene, the changes.
var questions = []struct {
	name, scene, changes, want string
	golden                     bool
}{
	{"weights", "clear-win", "weights.queue=.3 weights.cache=.4", "would still have gone to sim-2: score 0.80", true},
	{"other-weights", "clear-win", "weights.cache=.1 weights.load=.7", "would have gone to sim-1, not to sim-2: score 0.86, ahead of sim-0 by 0.17", false},
	{"preset", "deeper-queue", "preset=api-gateway", "would have gone to sim-a, not to sim-b", false},
	{"preset-and-weight", "deeper-queue", "weights.load=0 weights.queue=.5 preset=api-gateway", "would have gone to sim-a, not to sim-b", true},
	{"max-queue", "clear-win", "maxQueue=5", "would have gone to sim-0, not to sim-2", false},
	{"without", "clear-win", "without=sim-2 without=10.0.0.1:8000", "would have gone to sim-0, not to sim-2: score 0.57, the only eligible pod of 3 (2 not-in-pool)", true},
	{"without-all", "only-one", "without=sim-0", "would have been refused with 503: no pod was eligible (1 not-in-pool), not sent to sim-0", false},
	{"reject", "relaxed", "saturation=reject", "would have been refused with 429: the queue is full on all 2 pods, not sent to sim-0", true},
	{"relax", "refused-429", "saturation=relax", "would have gone to sim-0, not been refused", false},
	{"still-refused", "refused-503", "saturation=reject", "would have been refused all the same, with 503", false},
	{"max-utilization", "tie-load", "maxUtilization=.25", "would have gone to sim-0, not to sim-1: score 0.44, ahead of sim-1 by 0.06, decided by queueDepth", false},
	{"queue", "excluded", "pods[sim-7].queue=0", "would have gone to sim-7, not to sim-0", false},
	{"two-of-which-one-matters", "excluded", "pods[sim-7].waiting=4 pods[sim-0].health=90%", "would have gone to sim-7, not to sim-0", true},
	{"inputs", "clear-win", "pods[sim-1].cache=100% pods[sim-2].load=1.5 pods[sim-2].pending=0 pods[sim-0].health=.29", "would have gone to sim-1, not to sim-2", false},
	{"adapter", "adapter", "pods[sim-a].adapter=true pods[sim-b].adapter=false", "would have gone to sim-a, not to sim-b", false},
	{"custom", "custom", "weights.cost=.46 weights.cache=.1", "would still have gone to sim-1", false},
	{"custom-answer", "custom", "pods[sim-0].cost=1 pods[sim-1].cost=0", "would have gone to sim-0, not to sim-1", false},
	{"let-in", "excluded", "pods[sim-1].reason= pods[sim-1].cache=195 pods[sim-2].reason=", "would have gone to sim-1, not to sim-0", true},
	{"shut-out", "clear-win", "pods[sim-2].reason=terminating", "would have gone to sim-0, not to sim-2", false},
	{"policy", "policy", "pods[sim-0].cache=195", "would have gone to sim-0, not to sim-2 by the scores (policy random picked, not they): score 0.93", true},
	{"nothing", "tie-seed", "", "would still have gone to sim-1", false},
	{"no-pods", "no-pods", "maxQueue=5", "would have been refused all the same", false},
	{"many", "many", "maxQueue=4", "would still have gone to vllm", true},
	{"hostile", "hostile", "maxQueue=4", "would still have gone to", true},
	{"foreign", "foreign", "weights.queue-scorer=3 pods[vllm-1].prefix-cache-scorer=.5", "would have gone to vllm-1, not to vllm-0", true},
}

func questioned(name string) *explain.Record {
	if name == "foreign" {
		return foreign().record()
	}
	return recordOf(name, scenes()[name])
}

// ask asks one of the questions.
func ask(t *testing.T, name string) *explain.Comparison {
	t.Helper()
	for _, q := range questions {
		if q.name == name {
			return whatIf(t, questioned(q.scene), q.changes)
		}
	}
	t.Fatalf("no question %q", name)
	return nil
}

func TestWhatIf(t *testing.T) {
	for _, q := range questions {
		t.Run(q.name, func(t *testing.T) {
			c := whatIf(t, questioned(q.scene), q.changes)
			if !strings.Contains(c.Verdict, q.want) {
				t.Errorf("verdict = %q, want %q in it", c.Verdict, q.want)
			}
			if c.PickChanges == (strings.Contains(q.want, "still") || strings.Contains(q.want, "the same")) {
				t.Errorf("pickChanges = %v", c.PickChanges)
			}
			if !q.golden {
				return
			}
			golden.Equal(t, "testdata/whatif-"+q.name+".80.txt", comparisonText(t, c, explain.TextOptions{Width: 80}))
			golden.Equal(t, "testdata/whatif-"+q.name+".120.txt", comparisonText(t, c, explain.TextOptions{Width: 120}))
			document, err := json.MarshalIndent(c, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, "testdata/whatif-"+q.name+".json", string(document)+"\n")
			goldenDocuments(t, "whatif-"+q.name, c)
		})
	}
}

func comparisonText(t *testing.T, c *explain.Comparison, opt explain.TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Text(&b, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWhatIfTextFits(t *testing.T) {
	for _, q := range questions {
		c := whatIf(t, questioned(q.scene), q.changes)
		for _, limit := range []int{40, 80, 120} {
			text := comparisonText(t, c, explain.TextOptions{Width: limit, Wide: true})
			for line := range strings.Lines(text) {
				if line = strings.TrimSuffix(line, "\n"); columns(line) > limit || strings.ContainsAny(line, "\x1b\u202e\r\a") {
					t.Errorf("%s at %d: %q", q.name, limit, line)
				}
			}
		}
	}
}

func TestWhichChangeMattered(t *testing.T) {
	for name, want := range map[string][]string{
		"weights":                  {"false sim-2", "false sim-2"},
		"other-weights":            {"true sim-2", "true sim-2"},
		"two-of-which-one-matters": {"true sim-0", "false sim-7"},
		"without":                  {"true sim-2", "false sim-0"},
		"reject":                   {"true sim-0"},
		"relax":                    {"true "},
		"preset-and-weight":        {"true sim-b", "true sim-b", "true sim-b"},
		"foreign":                  {"true vllm-0", "false vllm-1"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range ask(t, name).Changes {
				without := ""
				if a.PickWithout != nil {
					without = a.PickWithout.Pod
				}
				got = append(got, map[bool]string{true: "true ", false: "false "}[a.Mattered]+without)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("mattered and pick without (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEditErrors(t *testing.T) {
	for _, tc := range []struct{ scene, changes, want string }{
		{"clear-win", "weights.cache=.4", "sum is 0.8000000000000002 (cache 0.4 + load 0.2 + queue 0.1 + health 0.05 + adapter 0.05), must be 1: add 0.2, for example weights.load=0.4"},
		{"clear-win", "weights.cache=.8", "sum is 1.2000000000000002 (cache 0.8 + load 0.2 + queue 0.1 + health 0.05 + adapter 0.05), must be 1: take away 0.2, for example weights.load=0"},
		{"clear-win", "weights.cache=.5 weights.load=.5 weights.queue=.5 weights.health=.5 weights.adapter=.5", "sum is 2.5"},
		{"custom", "preset=batch", "must be 1: take away 0.1, for example weights.cache=0.3"},
		{"clear-win", "weights.cash=.4", `unknown weight "cash": did you mean cache? The weights are cache, load, queue, health, adapter`},
		{"clear-win", "weights.cache=1.4", "weights.cache: must be from 0 to 1, got 1.4"},
		{"clear-win", "weights.cache=much", `weights.cache: "much" is no number`},
		{"clear-win", "weights.cache=NaN", `"NaN" is no number`},
		{"clear-win", "weights.cache=-.1", "must be from 0 to 1"},
		{"clear-win", "weight.cache=.1", `unknown key "weight.cache": did you mean weights.cache?`},
		{"clear-win", "maxqueue=3", `unknown key "maxqueue": did you mean maxQueue?`},
		{"clear-win", "maxQueue=0", "maxQueue: must be from 1 to 2147483647, got 0"},
		{"clear-win", "maxQueue=many", `maxQueue: "many" is no whole number`},
		{"clear-win", "maxUtilization=0", "maxUtilization: must be above 0"},
		{"clear-win", "maxUtilization=Inf", "maxUtilization: must be at least 0 and finite, got Inf"},
		{"clear-win", "saturation=drop", `saturation: must be relax or reject, got "drop"`},
		{"clear-win", "preset=chat", `unknown preset "chat": the presets are api-gateway, batch, chatbot, default, multi-lora, rag; did you mean chatbot?`},
		{"clear-win", "without=sim-9", `without: no pod "sim-9" among the 3 pods of this decision: did you mean sim-0?`},
		{"clear-win", "without=sim-0 pods[sim-0].reason=", "pods[sim-0].reason: without is set already"},
		{"clear-win", "maxQueue=3 maxQueue=4", "maxQueue: maxQueue is set already; give one of them"},
		{"clear-win", "pods[sim-0].queue=1 pods[10.0.0.0:8000].waiting=2", "pods[10.0.0.0:8000].waiting: pods[sim-0].queue is set already"},
		{"clear-win", "pods[sim0].queue=1", `pods[sim0].queue: no pod "sim0" among the 3 pods of this decision: did you mean sim-0?`},
		{"clear-win", "pods[sim-0]=1", "must be pods[POD].INPUT, for example pods[sim-0].queue"},
		{"clear-win", "pods[sim-0].cash=1", `a pod has no input "cash": did you mean cache?`},
		{"clear-win", "pods[sim-0].queue=-1", "must be from 0 to 2147483647, got -1"},
		{"clear-win", "pods[sim-0].waiting=.5", `".5" is no whole number`},
		{"clear-win", "pods[sim-0].cache=196", "pods[sim-0].cache: the prompt has 195 blocks, got 196"},
		{"clear-win", "pods[sim-0].cache=101%", "must be from 0 to 1, got 101%"},
		{"clear-win", "pods[sim-0].health=2", "must be from 0 to 1, got 2"},
		{"clear-win", "pods[sim-0].adapter=true", "this request needs no adapter"},
		{"adapter", "pods[sim-a].adapter=maybe", `"maybe" is neither true nor false`},
		{"no-prefix", "pods[sim-0].cache=1", "this request has no prefix to match: /v1/embeddings has no prompt prefix"},
		{"excluded", "pods[sim-7].reason=", "queue-full follows from its queue: set pods[sim-7].queue, or maxQueue"},
		{"excluded", "pods[sim-6].reason=", "unhealthy follows from its health: set pods[sim-6].health"},
		{"excluded", "pods[sim-0].reason=unhealthy", "must be empty, which lets the pod in, or one of not-ready, terminating, not-in-pool, not-in-subset, model-not-served"},
		{"no-pods", "without=a", "this decision had no pods at all"},
		{"no-pods", "pods[=1", "for example pods[POD].queue"},
		{"foreign", "preset=batch", "the picker of this record has no such setting; change a weight: weights.prefix-cache-scorer"},
		{"foreign", "weights.cache=1", `unknown weight "cache": did you mean`},
		{"foreign", "pods[vllm-0].queue=1", `a pod has no input "queue": did you mean`},
		{"foreign", "weights.queue-scorer=-2", "must be at least 0 and finite, got -2"},
	} {
		t.Run(tc.scene+" "+tc.changes, func(t *testing.T) {
			_, err := explain.WhatIf(questioned(tc.scene), edits(t, tc.changes))
			if err == nil || !strings.Contains(err.Error(), tc.want) || errors.Is(err, explain.ErrReplay) {
				t.Errorf("error = %v, want %q in it", err, tc.want)
			}
		})
	}
	for _, text := range []string{"", "maxQueue", "=3"} {
		if e, err := explain.ParseEdit(text); err == nil || !strings.Contains(err.Error(), "is not KEY=VALUE") {
			t.Errorf("ParseEdit(%q) = %v, %v", text, e, err)
		}
	}
}

func TestPodsOfOneNameAreToldApartByEndpoint(t *testing.T) {
	s := clearWin()
	s.pods[0] = score.NewPod("sim-2", "10.0.0.9:8000")
	rec := s.record()
	_, err := explain.WhatIf(rec, edits(t, "without=sim-2"))
	if err == nil || !strings.Contains(err.Error(), `several pods have the name "sim-2"; give the endpoint: 10.0.0.9:8000 or 10.0.0.2:8000`) {
		t.Errorf("error = %v", err)
	}
	if c := whatIf(t, rec, "without=10.0.0.2:8000"); c.After.Picked.Pod != "sim-1" {
		t.Errorf("picked %v", c.After.Picked)
	}
}

// What does not replay has no what-if and no versus: it would be about something else.
func TestQuestionsNeedAReplay(t *testing.T) {
	for _, name := range []string{"damaged", "unreplayable"} {
		rec := questioned(name)
		if _, err := explain.WhatIf(rec, nil); !errors.Is(err, explain.ErrReplay) {
			t.Errorf("%s: WhatIf: %v", name, err)
		}
		if _, err := explain.WhyNot(rec, "sim-0"); !errors.Is(err, explain.ErrReplay) {
			t.Errorf("%s: WhyNot: %v", name, err)
		}
	}
}

func TestWhatIfLeavesTheRecordAlone(t *testing.T) {
	for _, q := range questions {
		rec := questioned(q.scene)
		whatIf(t, rec, q.changes)
		if diff := cmp.Diff(questioned(q.scene), rec); diff != "" {
			t.Errorf("%s: the record has changed:\n%s", q.name, diff)
		}
	}
}

func TestWhatIfWithoutChangesIsTheRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := drawScene(t).record()
		c, err := explain.WhatIf(rec, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.Before, c.After); diff != "" || c.PickChanges {
			t.Fatalf("before and after differ:\n%s", diff)
		}
		got, want := "", rec.Result.Endpoint
		if c.After.Picked != nil {
			got = c.After.Picked.Endpoint
		}
		if got != want || c.After.DecidedBy != rec.Result.DecidedBy || c.After.Refused != rec.Result.Refused {
			t.Fatalf("picked %s by %s, recorded %s by %s", got, c.After.DecidedBy, want, rec.Result.DecidedBy)
		}
		for _, pod := range c.Pods {
			if len(pod.Terms) > 0 {
				t.Fatalf("%s: terms %+v", pod.Pod, pod.Terms)
			}
		}
	})
}

// The result is the engine's for inputs that were changed without this package.
func TestWhatIfIsWhatTheEngineDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := drawScene(t).record()
		in, err := rec.Inputs()
		if err != nil {
			t.Fatal(err)
		}
		var list []explain.Edit
		set := func(key, value string) { list = append(list, explain.Edit{Key: key, Value: value}) }
		if rapid.Bool().Draw(t, "limits") {
			in.Weights.MaxQueue, in.Weights.MaxUtilization, in.Weights.Saturation = 3, .5, score.Reject
			set("maxQueue", "3")
			set("maxUtilization", ".5")
			set("saturation", "reject")
		}
		if rapid.Bool().Draw(t, "weights") {
			in.Weights.Cache, in.Weights.Queue = in.Weights.Cache-.5, .6
			set("weights.cache", map[bool]string{true: ".05", false: ".1"}[len(in.Weights.Custom) > 0])
			set("weights.queue", ".6")
			in.Weights.Cache = map[bool]float64{true: .05, false: .1}[len(in.Weights.Custom) > 0]
		}
		for i := range in.Pods {
			p := &in.Pods[i]
			if v := rapid.IntRange(-9, 30).Draw(t, "queue"); v >= 0 {
				p.Waiting, p.Pending, p.PeerPending = score.Read(float64(v), score.SourceManual), 0, 0
				set("pods["+p.Pod+"].queue", itoa(v))
			}
			if v := rapid.IntRange(-9, 10).Draw(t, "health"); v >= 0 {
				p.Health = score.Read(float64(v)/100, score.SourceManual)
				set("pods["+p.Endpoint+"].health", itoa(v)+"%")
			}
			switch rapid.IntRange(0, 3).Draw(t, "out or in") {
			case 0:
				p.Excluded = score.NotInPool
				set("without", p.Pod)
			case 1:
				if p.Excluded != score.Eligible {
					p.Excluded = score.Eligible
					set("pods["+p.Pod+"].reason", "")
				}
			}
		}
		c, err := explain.WhatIf(rec, list)
		if err != nil {
			t.Fatal(err)
		}
		var d score.Decision
		in.Decide(&d)
		want := explain.ResultOf(in, &d)
		if c.After.Picked == nil {
			c.After.Picked = &explain.Pick{}
		}
		got := *c.After.Picked
		if got.Endpoint != want.Endpoint || got.Score != want.Score || c.After.Refused != want.Refused || c.After.DecidedBy != want.DecidedBy {
			t.Fatalf("with %v: %+v, the engine decides %+v", list, got, want)
		}
	})
}

func itoa(n int) string { return string(must(json.Marshal(n))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
