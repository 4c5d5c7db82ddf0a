package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const textPlain = "text/plain; version=0.0.4; charset=utf-8"

func parse(t *testing.T, page string) Page {
	t.Helper()
	p, err := ParsePage(strings.NewReader(page), textPlain, Limits{})
	if err != nil {
		t.Fatalf("ParsePage(%.200q): %v", page, err)
	}
	return p
}

func val(series string, v float64) Value { return Value{V: v, Known: true, Series: series} }

func fixture(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// case M1, case M2, and what else the adapter family can look like.
func TestAdapters(t *testing.T) {
	const family = "vllm:lora_requests_info"
	tests := []struct {
		name, page string
		want       []string
		state      Value
		slots      int
	}{
		{
			name:  "no adapter is not one called empty (M1)",
			page:  `vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters=""} 1.9e9` + "\n",
			state: val(family, 0), slots: 4,
		},
		{
			name: "newest series wins (M2)",
			page: `vllm:lora_requests_info{running_lora_adapters="",max_lora="4"} 100
vllm:lora_requests_info{running_lora_adapters="fr",max_lora="4"} 300
vllm:lora_requests_info{running_lora_adapters="de",max_lora="4"} 200
`,
			want: []string{"fr"}, state: val(family, 1), slots: 4,
		},
		{
			name: "split on commas, trimmed, running and waiting once (M2)",
			page: `vllm:lora_requests_info{running_lora_adapters="b, a ,,b",waiting_lora_adapters=" a, c",max_lora="8"} 1` + "\n",
			want: []string{"a", "b", "c"}, state: val(family, 3), slots: 8,
		},
		{
			name:  "family without a sample",
			page:  "# HELP vllm:lora_requests_info x\n# TYPE vllm:lora_requests_info gauge\nvllm:num_requests_running 0\n",
			state: Value{Known: true, Reason: "no LoRA"},
		},
		{
			name:  "absent family",
			page:  "vllm:num_requests_running 0\n",
			state: Value{Known: true, Reason: "no LoRA"},
		},
		{
			name: "two series within one second",
			page: `vllm:lora_requests_info{running_lora_adapters="",max_lora="2"} 1.7e9
vllm:lora_requests_info{running_lora_adapters="lora1",max_lora="2"} 1.7e9
vllm:lora_requests_info{running_lora_adapters="old",max_lora="2"} 1.6e9
`,
			want: []string{"lora1"}, state: val(family, 1), slots: 2,
		},
		{
			name: "each rank has a newest of its own (M3's kind)",
			page: `vllm:lora_requests_info{engine="0",running_lora_adapters="a",max_lora="2"} 100
vllm:lora_requests_info{engine="1",running_lora_adapters="b",max_lora="2"} 200
`,
			want: []string{"a", "b"}, state: val(family, 2), slots: 2,
		},
		{
			name: "a NaN time is no time",
			page: `vllm:lora_requests_info{running_lora_adapters="a",max_lora="2"} NaN
vllm:lora_requests_info{running_lora_adapters="b",max_lora="x"} 1
`,
			want: []string{"b"}, state: val(family, 1),
		},
		{
			name:  "only NaN times",
			page:  `vllm:lora_requests_info{running_lora_adapters="a",max_lora="2"} NaN` + "\n",
			state: unknown(family, "vllm:lora_requests_info has no series with a time"),
		},
		{
			name:  "engine that does not tell",
			page:  "sglang:num_queue_reqs 0\n",
			state: unknown("", "sglang does not say on its page which adapters are loaded"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := parse(t, tt.page)
			if diff := cmp.Diff(tt.want, p.Adapters); diff != "" {
				t.Errorf("adapters (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.state, p.AdaptersState); diff != "" {
				t.Errorf("state of the adapters (-want +got):\n%s", diff)
			}
			if p.MaxAdapters != tt.slots {
				t.Errorf("MaxAdapters = %d, want %d", p.MaxAdapters, tt.slots)
			}
		})
	}
}

// case M3
func TestRanksAreSummed(t *testing.T) {
	const waiting, running, usage = "vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc"
	p := parse(t, `vllm:num_requests_waiting{engine="0"} 0
vllm:num_requests_waiting{engine="1"} 40
vllm:num_requests_running{engine="1"} 8
vllm:num_requests_running{engine="0"} 3
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
`)
	want := Page{
		Engine:        "vllm",
		Waiting:       val(waiting, 40),
		Running:       val(running, 11),
		KVUsage:       val(usage, 0.75),
		AdaptersState: Value{Known: true, Reason: "no LoRA"},
		Ranks: []Rank{
			{Name: "0", Waiting: val(waiting, 0), Running: val(running, 3), KVUsage: val(usage, 0.25)},
			{Name: "1", Waiting: val(waiting, 40), Running: val(running, 8), KVUsage: val(usage, 0.75)},
		},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

// case M3, its kind
func TestWaitingOfSeveralSeries(t *testing.T) {
	const vllm, sglang = "vllm:num_requests_waiting", "sglang:num_queue_reqs"
	tests := []struct {
		name, page string
		want       Value
	}{
		{
			"twelve ranks", func() string {
				var b strings.Builder
				for r := range strings.FieldsSeq("10 2 11 0 1 3 4 5 6 7 8 9") {
					b.WriteString(`vllm:num_requests_waiting{engine="` + r + `"} 1` + "\n")
				}
				return b.String()
			}(), val(vllm, 12),
		},
		{
			"one rank is NaN",
			"vllm:num_requests_waiting{engine=\"0\"} 5\nvllm:num_requests_waiting{engine=\"1\"} NaN\n",
			unknown(vllm, "vllm:num_requests_waiting is NaN"),
		},
		{
			"one rank is missing",
			"vllm:num_requests_waiting{engine=\"0\"} 5\nvllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"1\"} 1\n",
			unknown(vllm, `vllm:num_requests_waiting has no series with engine="1"`),
		},
		{
			"only another family tells the ranks apart",
			"vllm:num_requests_waiting{model_name=\"m\"} 5\nvllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"1\"} 1\n",
			val(vllm, 5),
		},
		{
			"several models on one engine",
			"vllm:num_requests_waiting{engine=\"0\",model_name=\"a\"} 5\nvllm:num_requests_waiting{engine=\"0\",model_name=\"b\"} 2\n",
			val(vllm, 7),
		},
		{
			"tensor parallel workers report one queue",
			"sglang:num_queue_reqs{tp_rank=\"0\",dp_rank=\"0\"} 3\nsglang:num_queue_reqs{tp_rank=\"1\",dp_rank=\"0\"} 3\nsglang:num_queue_reqs{tp_rank=\"2\",dp_rank=\"1\"} 4\n",
			val(sglang, 7),
		},
		{
			"priorities are parts of the total",
			"sglang:num_queue_reqs{priority=\"\"} 3\nsglang:num_queue_reqs{priority=\"1\"} 2\nsglang:num_queue_reqs{priority=\"2\"} 1\n",
			val(sglang, 3),
		},
		{
			"the sum overflows",
			"vllm:num_requests_waiting{engine=\"0\"} 1.5e308\nvllm:num_requests_waiting{engine=\"1\"} 1.5e308\n",
			unknown(vllm, "vllm:num_requests_waiting is infinite"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parse(t, tt.page).Waiting); diff != "" {
				t.Errorf("waiting (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRanksAreInTheOrderOfTheirNumbers(t *testing.T) {
	p := parse(t, "vllm:num_requests_waiting{engine=\"10\"} 1\nvllm:num_requests_waiting{engine=\"9\"} 1\nvllm:num_requests_waiting{engine=\"x\"} 1\n")
	got := make([]string, 0, len(p.Ranks))
	for _, r := range p.Ranks {
		got = append(got, r.Name)
	}
	if diff := cmp.Diff([]string{"9", "10", "x"}, got); diff != "" {
		t.Errorf("ranks (-want +got):\n%s", diff)
	}
}

// case M4
func TestKVUsageUnderOldAndNewName(t *testing.T) {
	const oldName, newName = "vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"
	tests := []struct {
		name, page string
		want       Value
	}{
		{"old", oldName + " 0.7\n", val(oldName, 0.7)},
		{"new", newName + " 0.7\n", val(newName, 0.7)},
		{"both", oldName + " 0.7\n" + newName + " 0.7\n", val(newName, 0.7)},
		{"both, and they differ", oldName + " 0.1\n" + newName + " 0.7\n", val(newName, 0.7)},
		{"both, and the new one is of no use", oldName + " 0.7\n" + newName + " NaN\n", val(oldName, 0.7)},
		{"neither", "", unknown("", "page has no "+newName+" or "+oldName)},
		{"above one, for the scorer to clamp", newName + " 1.2\n", val(newName, 1.2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := parse(t, "vllm:num_requests_running 1\n"+tt.page).KVUsage
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("KV usage (-want +got):\n%s", diff)
			}
		})
	}
}

// case M8: values that are no numbers of requests
func TestValuesOfNoUse(t *testing.T) {
	const series = "vllm:num_requests_waiting"
	for text, reason := range map[string]string{
		"NaN": " is NaN", "+Inf": " is infinite", "-Inf": " is infinite", "-3": " is negative (-3)",
	} {
		t.Run(text, func(t *testing.T) {
			p := parse(t, series+" "+text+"\nvllm:num_requests_running 2\n")
			if diff := cmp.Diff(unknown(series, series+reason), p.Waiting); diff != "" {
				t.Errorf("waiting (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(val("vllm:num_requests_running", 2), p.Running); diff != "" {
				t.Errorf("running, which is fine (-want +got):\n%s", diff)
			}
		})
	}
}

// endless is a page that never ends and never says anything.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "# padding\n"[(e.read+int64(i))%10]
	}
	e.read += int64(len(p))
	return len(p), nil
}

// case M8: pages that are none
func TestPagesThatAreNone(t *testing.T) {
	metrics := "vllm:num_requests_waiting 3\n"
	tests := []struct {
		name, contentType string
		body              io.Reader
		reason            string
	}{
		{"5 MB", textPlain, strings.NewReader(metrics + strings.Repeat("# padding\n", 500_000)), "read page: longer than 4194304 bytes"},
		{"endless", textPlain, &endless{}, "read page: longer than 4194304 bytes"},
		{"endless line", textPlain, io.MultiReader(strings.NewReader("x"), &oneByte{'x'}), "read page: longer than 4194304 bytes"},
		{"endless line that matters", textPlain, io.MultiReader(strings.NewReader(`vllm:num_requests_waiting{x="`), &oneByte{'x'}), "page has a line of more than 65536 bytes"},
		{"HTML", "text/html; charset=utf-8", strings.NewReader("<!doctype html>"), "page is HTML, not metrics"},
		{"HTML called text", textPlain, strings.NewReader("\n  <html>\n" + metrics), "page is HTML, not metrics"},
		{"JSON", "application/json", strings.NewReader("[]"), `content type "application/json" is not a metrics page`},
		{"broken content type", "text/;;", strings.NewReader(metrics), `content type "text/;;" is malformed`},
		{"cut in a line that matters", textPlain, strings.NewReader("vllm:num_requests_waiting 1"), "page is malformed: unexpected end of input stream"},
		{"a label without end", textPlain, strings.NewReader("vllm:num_requests_waiting{a=\"b} 1\n"), `page is malformed: label value "b} 1" contains unescaped new-line`},
		{"a number that is none", textPlain, strings.NewReader("vllm:num_requests_waiting many\n"), `page is malformed: expected float as value, got "many"`},
		{"protobuf of another kind", "application/vnd.google.protobuf", strings.NewReader(""), "protobuf page is not of delimited metric families"},
		{"protobuf that claims too much", protoType, strings.NewReader("\xff\xff\xff\xff\xff\xff\xff\x7f"), "page is malformed: a protobuf frame is cut"},
		{"read error", textPlain, io.MultiReader(strings.NewReader(metrics), broken{}), "read page: cable cut"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := ParsePage(tt.body, tt.contentType, Limits{})
			if err == nil || err.Error() != tt.reason {
				t.Fatalf("ParsePage: error %v, want %s", err, tt.reason)
			}
			if diff := cmp.Diff(unknownPage(tt.reason), p); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}

type oneByte struct{ b byte }

func (o *oneByte) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = o.b
	}
	return len(p), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("cable cut") }

func TestEndlessPageIsReadNoFurtherThanItsLimit(t *testing.T) { // case M8
	body := &endless{}
	if _, err := ParsePage(body, textPlain, Limits{PageBytes: 100_000}); err == nil {
		t.Fatal("an endless page was read to its end")
	}
	if body.read > 100_000+maxLineBytes {
		t.Errorf("read %d bytes of a page, limit 100000", body.read)
	}
}

func TestPageOfSomethingElse(t *testing.T) {
	p := parse(t, "# TYPE up gauge\nup 1\nvllm:new_name 3\n")
	if diff := cmp.Diff(unknownPage("page has no series of vLLM, SGLang or trtllm-serve"), p); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

func TestRanksAndAdaptersAreBounded(t *testing.T) {
	var ranks, adapters strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&ranks, "vllm:num_requests_waiting{engine=\"%d\"} 1\n", i)
		fmt.Fprintf(&adapters, "vllm:lora_requests_info{running_lora_adapters=\"a%d\"} 1\n", i)
	}
	p, err := ParsePage(strings.NewReader(ranks.String()), textPlain, Limits{})
	const tooMany = "page has more than 1024 ranks"
	if diff := cmp.Diff(unknownPage(tooMany), p); diff != "" || err == nil || err.Error() != tooMany {
		t.Errorf("5000 ranks: error %v, page (-want +got):\n%s", err, diff)
	}
	p = parse(t, adapters.String())
	want := unknown("vllm:lora_requests_info", "vllm:lora_requests_info names more than 4096 adapters")
	if diff := cmp.Diff(want, p.AdaptersState); diff != "" || p.Adapters != nil {
		t.Errorf("5000 adapters: %d kept, state (-want +got):\n%s", len(p.Adapters), diff)
	}
}
