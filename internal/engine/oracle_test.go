package engine

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"
)

// oracle reads a text page with prometheus/common, every line of it.
func oracle(page []byte) (Page, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return Page{}, err
	}
	var d decoder
	d.reset()
	for _, f := range found {
		d.take(f)
	}
	return pageOf(d.families, "")
}

// quotedPart is a name that has quotes inside: prometheus/common takes them out.
// No engine writes that, and it is read as another name here.
var quotedPart = regexp.MustCompile(`(?m)^[ \t]*(#[ \t]*TYPE[ \t]+)?[A-Za-z_:][A-Za-z0-9_:]*"`)

// checkAgainstOracle holds the reading of a page to two readings by
// prometheus/common: of the lines that were kept, when they were decoded here,
// and of the whole page, when it is well-formed as a whole.
func checkAgainstOracle(t rapid.TB, page []byte) {
	t.Helper()
	s := new(scratch)
	if s.scan(bytes.NewReader(page), Limits{}) == nil {
		if f, err := s.decode(s.kept); err == nil {
			got, gotErr := pageOf(f, "")
			want, err := oracle(s.kept)
			if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(err) != fmt.Sprint(gotErr) {
				t.Errorf("kept lines: error %v, prometheus/common %v; (-prometheus/common +decoded):\n%s", gotErr, err, diff)
			}
		}
	}
	got, err := ParsePage(bytes.NewReader(page), textPlain, Limits{})
	want, oracleErr := oracle(page)
	if oracleErr != nil || errors.Is(err, errHTML) || len(page) >= maxLineBytes || quotedPart.Match(page) {
		return
	}
	if err != nil {
		t.Errorf("page that parses as a whole: %v", err)
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page (-prometheus/common +read):\n%s", diff)
	}
}

func TestCapturedPagesAgainstOracle(t *testing.T) {
	for _, name := range captures {
		t.Run(name, func(t *testing.T) {
			page := []byte(fixture(t, name))
			checkAgainstOracle(t, page)
			if _, err := oracle(page); err != nil {
				t.Fatalf("the page shows nothing: prometheus/common: %v", err)
			}
			s := new(scratch)
			if err := s.scan(bytes.NewReader(page), Limits{}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.decode(s.kept); err != nil {
				t.Errorf("a real page is left to prometheus/common: %v", err)
			}
		})
	}
}

func TestGeneratedPagesAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page := generatedPage(t)
		checkAgainstOracle(t, []byte(page))
		if t.Failed() {
			t.Logf("page:\n%s", page)
		}
	})
}

// pick draws one of the usual texts, or, once in a while, an odd one.
func pick(t *rapid.T, usual, odd []string) string {
	if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
		return rapid.SampledFrom(odd).Draw(t, "text")
	}
	return rapid.SampledFrom(usual).Draw(t, "text")
}

// generatedPage is a page as an engine, or something that is not quite one,
// might write it.
func generatedPage(t *rapid.T) string {
	wanted := wantedNames()
	others := []string{"process_cpu_seconds_total", "vllm:num_requests_waiting_by_reason", "vllm:num_requests_running_sum"}
	odd := []string{`{"vllm:kv_cache_usage_perc"`, wanted[0], wanted[1], "up"}
	var b strings.Builder
	for range rapid.IntRange(0, 5).Draw(t, "families") {
		name := pick(t, append(wanted, others...), odd)
		b.WriteString(pick(t,
			[]string{"", "# HELP " + name + " Some.\n# TYPE " + name + " gauge\n", "# TYPE " + name + " untyped\n# a comment\n\n"},
			[]string{"#TYPE  " + name + "\tcounter\n", "# TYPE " + name + " histogram\n", "# TYPE " + name + " info\n"}))
		for range rapid.IntRange(0, 3).Draw(t, "samples") {
			b.WriteString(pick(t, []string{""}, []string{" ", "\t"}))
			b.WriteString(name)
			b.WriteString(generatedLabels(t, strings.HasPrefix(name, "{")))
			b.WriteString(pick(t, []string{" "}, []string{"  ", "\t", ""}))
			b.WriteString(pick(t, []string{"0", "1.0", "0.4623115577889447", "1.7960000644395587e+09", "NaN", "+Inf", "-3"},
				[]string{"1_0", "0x1p2", "0X1", "many", "1e999", ""}))
			b.WriteString(pick(t, []string{"\n"}, []string{" 1700000000000\n", " \n", " # {a=\"b\"} 1\n", "\r\n", ""}))
		}
	}
	return b.String()
}

func generatedLabels(t *rapid.T, inBraces bool) string {
	var labels, names []string
	for range rapid.IntRange(0, 4).Draw(t, "labels") {
		name := pick(t, []string{
			"engine", "model_name", "dp_rank", "priority", "block_size", "num_gpu_blocks", "page_size", "max_lora",
			"running_lora_adapters", "waiting_lora_adapters", "le", "pod",
		}, []string{"__name__", "a:b", `"quoted"`, "0", ""})
		if slices.Contains(names, name) && pick(t, []string{"once"}, []string{"twice"}) == "once" {
			continue
		}
		names = append(names, name)
		labels = append(labels, name+pick(t, []string{"="}, []string{" = ", "= ", ""})+`"`+
			pick(t, []string{"", "0", "1", "16", "fr, de", "größe", "{", "}", "#", ","},
				[]string{"\xff", `a\\b`, `a\"b`, `a\nb`, `a\b`})+`"`)
	}
	list := strings.Join(labels, pick(t, []string{","}, []string{", ", ";"}))
	switch end := pick(t, []string{"}", ",}"}, []string{""}); {
	case inBraces && list == "":
		return "}"
	case inBraces:
		return "," + list + end
	case list == "":
		return pick(t, []string{"", "{}"}, []string{"{", "{,}"})
	default:
		return "{" + list + end
	}
}

// The plain form is what engines write; all else is prometheus/common's.
func TestPlainForm(t *testing.T) {
	const name = "vllm:num_requests_waiting"
	for line, plain := range map[string]bool{
		name + " 3\n":   true,
		name + "   3\n": true,
		name + "{} 3\n": true,
		name + "{engine=\"0\",model_name=\"größe\"} 3\n": true,
		name + "{b=\"0\",a=\"1\",c=\"2\",} 1e3\n":        true,
		name + "{a=\"} 3\"} NaN\n":                       true,
		"# TYPE " + name + " gauge\n" + name + " 3\n":    true,

		name + " 3":                              false, // cut
		name + "\t3\n":                           false,
		name + "{a=\"1\",a=\"1\"} 3\n":           false, // twice
		name + "{b=\"1\",a=\"1\",b=\"2\"} 3\n":   false,
		name + "{a=\"1\", b=\"1\"} 3\n":          false,
		name + "{a=\"1\" 3\n":                    false,
		name + "{a=\"\\n\"} 3\n":                 false,
		name + "{a=\"\xff\"} 3\n":                false,
		name + "{__name__=\"a\"} 3\n":            false,
		name + "{0=\"1\"} 3\n":                   false,
		name + "{a:b=\"1\"} 3\n":                 false,
		name + "{=\"1\"} 3\n":                    false,
		name + " 3 1700000000000\n":              false,
		name + " 3 # {a=\"1\"} 1\n":              false,
		name + " 1_0\n":                          false,
		name + " 0x1p2\n":                        false,
		name + " 1e999\n":                        false,
		name + " many\n":                         false,
		name + "\n":                              false,
		"{\"" + name + "\"} 3\n":                 false,
		name + " 3\n# TYPE " + name + " gauge\n": false, // too late
		"# TYPE " + name + " gauge\n# TYPE " + name + " gauge\n": false,
		"# TYPE " + name + " histogram\n":                        false,
		"# TYPE " + name + "  gauge\n":                           false,
	} {
		t.Run(line, func(t *testing.T) {
			_, err := new(decoder).decode([]byte(line))
			if (err == nil) != plain {
				t.Errorf("decode: %v, want plain: %t", err, plain)
			}
			checkAgainstOracle(t, []byte(line))
		})
	}
}

// FuzzPageAgainstOracle holds the reading of pages to prometheus/common's, and
// every page to the promise that what is not known is not a number.
func FuzzPageAgainstOracle(f *testing.F) {
	for _, name := range captures {
		f.Add([]byte(fixture(f, name)[:1<<10]), textPlain)
		s := new(scratch)
		if err := s.scan(strings.NewReader(fixture(f, name)), Limits{}); err != nil {
			f.Fatal(err)
		}
		f.Add(s.kept[:min(len(s.kept), 1<<10)], textPlain)
	}
	f.Add([]byte("vllm:num_requests_waiting{engine=\"0\"} NaN\n{\"vllm:num_requests_running\"} 2\n"), textPlain)
	f.Add([]byte("# TYPE vllm:num_requests_waiting histogram\nvllm:num_requests_waiting_sum 2\n"), "")
	f.Add([]byte("vllm:num_requests_waiting{a=\"\\\\\",b=\"\\n\"} 1 17 # {x=\"y\"} 3\n"), "application/openmetrics-text")
	f.Add([]byte("\x05\x0a\x03abc"), protoType)
	f.Fuzz(func(t *testing.T, page []byte, contentType string) {
		got, _ := ParsePage(bytes.NewReader(page), contentType, Limits{})
		for _, v := range []Value{got.Waiting, got.Running, got.KVUsage, got.AdaptersState} {
			checkValue(t, v)
		}
		gpu, _ := ReadGPU(bytes.NewReader(page), contentType, "pod", Limits{})
		for _, v := range []Value{gpu.Utilization, gpu.Temperature, gpu.XID, gpu.Throttled, gpu.MemoryUsed} {
			checkValue(t, v)
		}
		checkAgainstOracle(t, page)
	})
}

func checkValue(t *testing.T, v Value) {
	t.Helper()
	if v.Known && !known(v.Series, v.V).Known || !v.Known && (v.V != 0 || v.Reason == "") {
		t.Errorf("value %+v is neither known nor unknown", v)
	}
}
