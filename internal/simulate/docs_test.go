package simulate

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const docs = "../../docs/simulate.md"

func documented(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The page has every setting with its default, every policy, and every key of a report.
func TestSettingsAreDocumented(t *testing.T) {
	text := documented(t)
	row := func(s Setting) string { return fmt.Sprintf("| `%s` | %v | %s |\n", s.Key, s.Value, s.About) }
	want := "| **all generators** | | |\n"
	for _, s := range common {
		want += row(s)
	}
	for _, g := range Generators() {
		want += fmt.Sprintf("| **gen:%s** | | %s |\n", g.Name, g.About)
		for _, s := range g.Settings[len(common):] {
			want += row(s)
		}
	}
	if !strings.Contains(text, want) {
		t.Errorf("%s lacks this table of settings:\n%s", docs, want)
	}
	for _, kind := range Kinds() {
		if !strings.Contains(text, "| `"+kind+"` |") {
			t.Errorf("%s does not tell of the policy %s", docs, kind)
		}
	}
}

// The profile on the page is the built-in one.
func TestProfileIsDocumented(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(documented(t))
	if block == nil {
		t.Fatal("no profile on the page")
	}
	got, err := ParseProfile(docs, []byte(block[1]))
	if err != nil {
		t.Fatal(err)
	}
	want, err := ProfileNamed("")
	if err != nil {
		t.Fatal(err)
	}
	want.Adapters, want.Faults = []Adapter{}, []Fault{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-built in +on the page):\n%s", diff)
	}
	for f := range reflect.TypeFor[Profile]().Fields() {
		if key := f.Tag.Get("yaml"); !strings.Contains("\n"+block[1], "\n"+key+":") {
			t.Errorf("the page lacks the key %s", key)
		}
	}
}

func TestReportIsDocumented(t *testing.T) {
	text := documented(t)
	plain := "policy requests completed promptTokens cachedTokens outputTokens durationSeconds perPod"
	for f := range reflect.TypeFor[PolicyReport]().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(plain, key) && !strings.Contains(text, "`"+key+"`") {
			t.Errorf("%s does not tell of %s", docs, key)
		}
	}
}

func TestBadProfiles(t *testing.T) {
	for text, want := range map[string]string{
		"stepp: 5ms":                       "x: line 1: unknown key stepp: did you mean step?",
		"step: 5":                          `x: line 1: "5" is no time; examples: 200ms, 5s, 10m`,
		"step: 0s":                         "x: step: must be above 0, or time would stand still",
		"budget: 10":                       "x: budget: 10 tokens a step cannot serve 64 sequences",
		"cache: rumours":                   `x: cache: must be events or reports, got "rumours"`,
		"gpus: []":                         "x: gpus: at least one is needed",
		"gpus: [{name: a}, {name: a}]":     `x: gpus[1].name: "a" is empty or taken`,
		"gpus: [{name: a, step: 1e9}]":     "x: gpus[0]: step and prefill are factors between 0.01 and 1000",
		"pods: h100=1":                     `x: pods "h100=1": no GPU "h100" in profile llama-8b; there are a100, a10g`,
		"pods: a100=2,a10g=1,a100=3":       `x: pods "a100=2,a10g=1,a100=3": a100 stands there twice: add its numbers up`,
		"pods: 2,a100=3":                   `x: pods "2,a100=3": a100 stands there twice: add its numbers up`,
		"pods: many":                       `x: pods "many": want a number, or numbers by GPU as in a100=8`,
		"faults: [{pod: sim-0, slow: -1}]": "x: faults[0].slow: must be a factor between 0.01 and 1000, got -1",
		"cache: reports\nintervals: {report: 0s}": "x: intervals.report: must be above 0 when reports tell the caches",
	} {
		if _, err := ParseProfile("x", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	p, err := ParseProfile("x", []byte("name: llama-70b\nbudget: 4096"))
	if err != nil || p.UncachedToken.String() != "2ms" || p.Budget != 4096 {
		t.Errorf("over llama-70b: %+v, %v", p, err)
	}
}
