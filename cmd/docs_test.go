package cmd

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/metricview"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/serve"
	"github.com/eppctl/eppctl/score"
)

func document(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names collects the keys of a type's fields under a tag, with the keys below
// them: addresses, addresses.gateway, models[].name.
func names(t reflect.Type, tag, path string, into map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer:
		names(t.Elem(), tag, path, into)
	case reflect.Slice:
		names(t.Elem(), tag, path+"[]", into)
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return
		}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
			below := path
			if name != "" {
				below = strings.TrimPrefix(path+"."+name, ".")
				into[below] = true
			}
			if f.IsExported() {
				names(f.Type, tag, below, into)
			}
		}
	}
}

func TestConfigKeysAreDocumented(t *testing.T) {
	page := document(t, "docs/config.md")
	keys := map[string]bool{}
	names(reflect.TypeFor[config.Config](), "yaml", "", keys)
	for key := range keys {
		if !strings.Contains(page, "`"+key+"`") && !hasRowsBelow(page, key) {
			t.Errorf("docs/config.md does not tell of `%s`", key)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z.\\[\\]]+)` \\|").FindAllStringSubmatch(page, -1) {
		if !keys[m[1]] && !slices.Contains(score.PresetNames(), m[1]) {
			t.Errorf("docs/config.md tells of `%s`, which is no key", m[1])
		}
	}
	for _, preset := range score.PresetNames() {
		if !strings.Contains(page, "`"+preset+"`") {
			t.Errorf("docs/config.md does not tell of the preset %s", preset)
		}
	}
}

// hasRowsBelow reports whether a key is told of by the keys below it.
func hasRowsBelow(page, key string) bool {
	return strings.Contains(page, "`"+key+".") || strings.Contains(page, "`"+key+"[].")
}

// The examples of the page are files that load.
func TestConfigExamplesLoad(t *testing.T) {
	for _, name := range []string{"docs/config.md", "README.md"} {
		for i, example := range fenced(document(t, name), "yaml") {
			if strings.HasPrefix(example, "endpoints:") {
				members, err := serve.ParseEndpoints([]byte(example))
				if err != nil || len(members) == 0 {
					t.Errorf("%s: example %d: %d endpoints, %v", name, i, len(members), err)
				}
				continue
			}
			c, err := config.Read("", []byte(example), config.Default())
			if err == nil {
				err = c.Validate(nil)
			}
			if err != nil {
				t.Errorf("%s: example %d: %v\n%s", name, i, err, example)
			}
		}
	}
}

// The first example shows the defaults, under all keys that have one.
func TestConfigExampleShowsTheDefaults(t *testing.T) {
	c, err := config.Read("", []byte(fenced(document(t, "docs/config.md"), "yaml")[0]), config.Default())
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	if c.PoolLimits() != want.PoolLimits() {
		t.Errorf("staleness limits %v, defaults %v", c.PoolLimits(), want.PoolLimits())
	}
	got, err := c.Effective(nil)
	if err != nil {
		t.Fatal(err)
	}
	if want, err = want.Effective(nil); err != nil {
		t.Fatal(err)
	}
	got.Models, got.AllowHeaders = nil, nil
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(config.Config{})); diff != "" {
		t.Errorf("defaults and example (-want +got):\n%s", diff)
	}
}

// fenced are the fenced blocks of a language.
func fenced(page, language string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func TestRecordFieldsAreDocumented(t *testing.T) {
	page := document(t, "docs/records.md") + document(t, "docs/llmd-logs.md")
	fields := map[string]bool{}
	elsewhere := []string{metricview.KindMetrics, metricview.KindSeries, kindPool, kindPoolList} // their schemas tell
	for kind, of := range schemas {
		if !slices.Contains(elsewhere, kind) {
			names(of, "json", "", fields)
		}
	}
	for field := range fields {
		last := field[strings.LastIndex(field, ".")+1:]
		if !regexp.MustCompile("[`\"]"+regexp.QuoteMeta(last)+"[`\"]").MatchString(page) && !inAnalysis(field) {
			t.Errorf("docs/records.md does not tell of `%s` (%s)", last, field)
		}
	}
}

// inAnalysis: what the weights mean is told of as a whole.
func inAnalysis(field string) bool { return strings.HasPrefix(field, "analysis.") }

func TestExamplesAreJSON(t *testing.T) {
	for _, name := range []string{"docs/records.md", "docs/reports.md"} {
		for i, example := range fenced(document(t, name), "json") {
			if !json.Valid([]byte(example)) {
				t.Errorf("%s: example %d is not JSON", name, i)
			}
		}
	}
}

// The report of the page is one that a picker takes.
func TestReportExampleDecodes(t *testing.T) {
	examples := fenced(document(t, "docs/reports.md"), "json")
	if len(examples) == 0 {
		t.Fatal("no example")
	}
	r, err := report.Decode(strings.NewReader(examples[0]), report.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Pod != "sim-0" || r.Seq != 7 || r.Blocks() != 3 || r.QueueDepth == nil || *r.QueueDepth != 3 {
		t.Errorf("decoded %+v", r)
	}
}
