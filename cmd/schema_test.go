package cmd

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/internal/metricview"
)

// schemas are the documents that have one, by kind.
var schemas = map[string]reflect.Type{
	explain.KindDecision:     reflect.TypeFor[explain.Record](),
	explain.KindExplanation:  reflect.TypeFor[explain.Report](),
	explain.KindConversation: reflect.TypeFor[explain.Conversation](),
	explain.KindWindow:       reflect.TypeFor[explain.Window](),
	explain.KindWhatIf:       reflect.TypeFor[explain.Comparison](),
	explain.KindSnapshot:     reflect.TypeFor[explain.Snapshot](),
	kindSnapshotList:         reflect.TypeFor[snapshotList](),
	kindDecisionRows:         reflect.TypeFor[decisionRows](),
	kindPoolList:             reflect.TypeFor[poolList](),
	kindPool:                 reflect.TypeFor[poolLine](),
	kindReplay:               reflect.TypeFor[replayReport](),
	metricview.KindMetrics:   reflect.TypeFor[metricview.Document](),
	metricview.KindSeries:    reflect.TypeFor[metricview.SeriesDocument](),
}

// The schemas are made of the Go types and their comments, and written with -update.
func TestSchemas(t *testing.T) {
	comments := commentsOf(t, "../explain", "../internal/metricview", "../cmd")
	for kind, of := range schemas {
		b, err := json.MarshalIndent(schemaOf(kind, of, comments), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, filepath.Join("..", "docs", "schema", kind+".json"), string(b)+"\n")
	}
}

// object is a part of a schema.
type object = map[string]any

type schemaMaker struct {
	kind     string
	comments map[string]string
	defs     object
}

func schemaOf(kind string, of reflect.Type, comments map[string]string) object {
	m := &schemaMaker{kind: kind, comments: comments, defs: object{}}
	root := m.structOf(of)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = kind
	properties := root["properties"].(object)
	properties["apiVersion"] = object{"const": explain.APIVersion}
	properties["kind"] = object{"const": kind}
	if len(m.defs) > 0 {
		root["$defs"] = m.defs
	}
	return root
}

// typeOf is the schema of a value, never null.
func (m *schemaMaker) typeOf(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Pointer:
		return m.typeOf(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Slice:
		return object{"type": "array", "items": m.typeOf(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": m.typeOf(t.Elem())}
	case reflect.Interface:
		return object{"type": []string{"number", "string", "boolean", "null"}}
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return object{"type": "string", "format": "date-time"}
		}
		if t == reflect.TypeFor[explain.FactorInput]() {
			return m.oneOf(t)
		}
		if _, made := m.defs[t.Name()]; !made {
			m.defs[t.Name()] = object{} // it may hold itself
			m.defs[t.Name()] = m.structOf(t)
		}
		return object{"$ref": "#/$defs/" + t.Name()}
	default:
		panic("no schema for " + t.String())
	}
}

// oneOf is a struct of which the one field that is set stands for it.
func (m *schemaMaker) oneOf(t reflect.Type) object {
	var kinds []object
	for f := range t.Fields() {
		kinds = append(kinds, m.typeOf(f.Type))
	}
	return object{"anyOf": kinds}
}

func (m *schemaMaker) structOf(t reflect.Type) object {
	properties, required := object{}, []string{}
	m.fields(t, properties, &required)
	slices.Sort(required)
	out := object{"type": "object", "properties": properties, "required": required}
	if text := m.comments[nameOf(t)]; text != "" {
		out["description"] = text
	}
	return out
}

func (m *schemaMaker) fields(t reflect.Type, properties object, required *[]string) {
	for f := range t.Fields() {
		if f.Anonymous {
			m.fields(f.Type, properties, required)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		of, field := m.typeOf(f.Type), nameOf(t)+"."+f.Name
		if values := enums[field]; values != nil {
			of["enum"] = values
		}
		if options != "omitempty" {
			*required = append(*required, name)
			if f.Type.Kind() == reflect.Pointer || slices.Contains(nullable[m.kind], field) {
				of = orNull(of)
			}
		}
		if text := m.comments[field]; text != "" {
			of["description"] = text
		}
		properties[name] = of
	}
}

// nameOf is a type with its package: explain.Row.
func nameOf(t reflect.Type) string { return path.Base(t.PkgPath()) + "." + t.Name() }

func orNull(of object) object {
	if name, simple := of["type"].(string); simple && of["enum"] == nil {
		of["type"] = []string{name, "null"}
		return of
	}
	return object{"anyOf": []object{of, {"type": "null"}}}
}

// nullable are the fields that are null when they are not known, although they are no
// pointers. Those of an explanation are in what is made of another picker's log, most of
// a snapshot's in what is made of metrics.
var nullable = map[string][]string{
	explain.KindExplanation: {
		"explain.Report.PromptTokens", "explain.Report.Prompts", "explain.Report.PrefixTokens", "explain.Report.BlockSize",
		"explain.Report.Blocks", "explain.Timings.Parse", "explain.Timings.Lookup", "explain.Timings.Decide",
	},
	explain.KindSnapshot: ofSnapshots, kindSnapshotList: ofSnapshots,
	metricview.KindMetrics: {"metricview.EngineState.Adapters"},
}

var (
	states   = []string{"known", "clamped", "stale", "unknown", "notApplicable"}
	outcomes = []string{explain.OutcomePending, explain.OutcomeDone, explain.OutcomeUnknown}
)

var ofSnapshots = []string{
	"explain.AdapterState.Loaded", "explain.AdapterState.Loads", "explain.AdapterState.Reloads",
	"explain.IndexState.Gaps", "explain.IndexState.Orphans", "explain.IndexState.Streams", "explain.IndexState.Connected",
	"explain.PodSnapshot.Picks", "explain.PodSnapshot.DecidedBy", "explain.PodSnapshot.Served",
	"explain.QueueSnapshot.Pending", "explain.QueueSnapshot.InFlight", "explain.QueueSnapshot.Max",
	"explain.RouterState.Uptime", "explain.RouterState.MaxQueue", "explain.RouterState.Weights", "explain.RouterState.InFlight",
	"explain.RouterState.Streams", "explain.RouterState.Dropped",
	"explain.WindowRates.Decisions", "explain.WindowRates.Refused", "explain.WindowRates.Shed", "explain.WindowRates.Relaxed",
	"explain.WindowRates.Ties", "explain.WindowRates.Completed", "explain.WindowRates.Failed", "explain.WindowRates.Stale",
	"explain.WindowRates.AdapterLoads", "explain.WindowRates.PredictedTokens", "explain.WindowRates.CachedTokens",
}

// enums are the values of fields that have no others.
var enums = map[string][]string{
	"explain.Outcome.State":       outcomes,
	"explain.Row.State":           outcomes,
	"explain.ReportOutcome.State": outcomes,
	"explain.Factor.State":        states,
	"explain.Change.FromState":    states,
	"explain.Weights.Saturation":  {"relax", "reject"},
	"explain.Step.Name":           {explain.StepIdeal, explain.StepKept, explain.StepAvailable, explain.StepPredicted, explain.StepActual},
	"explain.ReportOutcome.Cache": {
		explain.CacheAsPredicted, explain.CacheStale, explain.CacheMore, explain.CacheNotReported, explain.CacheNotPredicted, explain.CacheOtherPod,
	},
}

// commentsOf reads the comments of types and their fields, as package.Type and
// package.Type.Field.
func commentsOf(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.TYPE {
					for _, spec := range decl.Specs {
						commentsOfType(filepath.Base(dir), decl, spec.(*ast.TypeSpec), out)
					}
				}
				return true
			})
		}
	}
	return out
}

func commentsOfType(pkg string, decl *ast.GenDecl, spec *ast.TypeSpec, out map[string]string) {
	of, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	name := pkg + "." + spec.Name.Name
	out[name] = plainComment(decl.Doc.Text())
	for _, field := range of.Fields.List {
		text := plainComment(field.Doc.Text() + " " + field.Comment.Text())
		for _, f := range field.Names {
			out[name+"."+f.Name] = text
		}
	}
}

// plainComment is a comment in one line, without the links that Go's have.
func plainComment(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return regexp.MustCompile(`\[([A-Z][A-Za-z.]*)\]`).ReplaceAllString(text, "$1")
}

// Every document that is written for the tests, and what is made of the records of
// another picker's log and of all versions, follows its schema.
func TestDocumentsFollowTheirSchemas(t *testing.T) {
	seen := map[string]int{}
	follow := func(name string, document []byte) {
		kind, wrong := checkDocument(t, document)
		if seen[kind]++; len(wrong) > 0 {
			t.Errorf("%s: %s", name, strings.Join(wrong, "\n"))
		}
	}
	files, err := filepath.Glob("../explain/testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../internal/metricview/testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	fleets, err := filepath.Glob("../internal/patrol/testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(files, pages, fleets) {
		if strings.HasPrefix(filepath.Base(name), "versus-") { // a part of one
			continue
		}
		document, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		follow(name, document)
	}
	for _, from := range []string{"../explain/testdata/records", "../internal/llmdlog/testdata/v0.9.0.jsonl.gz"} {
		lines := jsonLines(t, "decisions", "-o", "jsonl", "-f", from)
		for _, line := range lines {
			follow(from, []byte(line))
		}
		follow(from, []byte(strings.Join(jsonLines(t, "decisions", "-o", "json", "-f", from), "\n")))
		follow(from, []byte(strings.Join(jsonLines(t, "decisions", "--replay", "-o", "json", "-f", from), "\n")))
		snapshot := strings.Join(jsonLines(t, "top", "--replay", from, "-o", "json"), "\n")
		follow(from, []byte(snapshot))
		follow(from, fmt.Appendf(nil, `{"apiVersion": %q, "kind": %q, "items": [%s]}`, explain.APIVersion, kindSnapshotList, snapshot))
		for _, line := range lines[:min(len(lines), 20)] {
			for _, document := range documentsOf(t, line) {
				follow(from, document)
			}
		}
	}
	config := apiServer(t, lab(), nil)
	follow("pools", []byte(strings.Join(jsonLines(t, "pools", "--kubeconfig", config, "-o", "json"), "\n")))
	follow("a pool", []byte(jsonLines(t, "pools", "--kubeconfig", config, "-o", "jsonl")[0]))
	if diff := cmp.Diff(slices.Sorted(maps.Keys(schemas)), slices.Sorted(maps.Keys(seen))); diff != "" {
		t.Errorf("kinds that were checked (-want +got):\n%s", diff)
	}
}

func jsonLines(t *testing.T, args ...string) []string {
	t.Helper()
	out, errOut, status := runTest(t, args...)
	if status != 0 {
		t.Fatalf("%v: status %d: %s", args, status, errOut)
	}
	return strings.Split(strings.TrimSpace(out), "\n")
}

// documentsOf are what can be made of a record.
func documentsOf(t *testing.T, line string) (out [][]byte) {
	t.Helper()
	var rec explain.Record
	if err := json.Unmarshal([]byte(line), &rec); err != nil {
		t.Fatal(err)
	}
	report := explain.Explain(&rec, explain.Options{Flips: 9})
	report.Conversation = explain.Converse(&rec, nil)
	for i := range rec.Candidates {
		report.Versus, _ = explain.WhyNot(&rec, rec.Candidates[i].Endpoint)
	}
	window := explain.NewWindow(rec.Time, rec.Time.Add(time.Minute))
	window.See(&rec)
	made := []any{report, report.Conversation, window.Window()}
	if c, err := explain.WhatIf(&rec, []explain.Edit{{Key: "without", Value: rec.Result.Pod}}); err == nil {
		made = append(made, c)
	}
	for _, v := range made {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// checkDocument finds what in a document is not as its schema says.
func checkDocument(t *testing.T, document []byte) (kind string, wrong []string) {
	t.Helper()
	var value object
	if err := json.Unmarshal(document, &value); err != nil {
		t.Fatal(err)
	}
	kind = fmt.Sprint(value["kind"])
	return kind, readSchema(t, kind).check(value)
}

func readSchema(t *testing.T, kind string) *schemaChecker {
	t.Helper()
	b, err := os.ReadFile("../docs/schema/" + kind + ".json")
	if err != nil {
		t.Fatal(err)
	}
	c := new(schemaChecker)
	if err := json.Unmarshal(b, &c.root); err != nil {
		t.Fatal(err)
	}
	return c
}
