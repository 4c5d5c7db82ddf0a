package serve

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eppctl/eppctl/internal/config"
)

const metricsPage = "../../docs/telemetry.md"

// A family is one of the metrics page.
type family struct {
	labels string // "a, b", in the order of the alphabet; "–" without any
	help   string
	kind   string // counter, gauge or histogram; "" when only a sample would tell
	// sampled: it has samples by itself.
	sampled bool
}

// conditional reports whether the page says that a family is not always there.
func conditional(row family) bool { return strings.HasPrefix(row.help, "With ") }

// What serve exposes stands on the page, with its type and labels, and the page tells of
// nothing else. What a plain 'serve --sim' does not have says with what it is there.
func TestMetricsAreDocumented(t *testing.T) {
	plain := exposed(t, serveOptions(4))
	all := exposed(t, everythingOn(t))
	named := namedInCode(t)
	rows := documented(t)
	for name, f := range all {
		named[name] = true
		row, told := rows[name]
		p, described := plain[name]
		switch {
		case !told:
			t.Errorf("%s lacks a row for this family: say what it means and what to do when it is bad:\n| `%s` | %s | %s | unit | %s | … |", metricsPage, name, f.kind, f.labels, f.help)
		case f.kind != "" && row.kind != f.kind || row.labels != f.labels:
			t.Errorf("%s: `%s` is a %s with labels %s, and not a %s with labels %s", metricsPage, name, f.kind, f.labels, row.kind, row.labels)
		case !described && !conditional(row):
			t.Errorf("%s: `%s` is not there in a plain serve --sim: begin what it means with \"With …: \"", metricsPage, name)
		case p.sampled && conditional(row):
			t.Errorf("%s: `%s` is there in a plain serve --sim, and not only \"With …\"", metricsPage, name)
		}
	}
	for name := range named {
		if _, told := rows[name]; !told && all[name] == (family{}) {
			t.Errorf("%s lacks a row for this family, which the code names: add it under what it is about, and what it is there with:\n| `%s` | gauge or counter | labels or – | unit | With …: what it means | what to do when it is bad |", metricsPage, name)
		}
	}
	for name := range rows {
		if !named[name] {
			t.Errorf("%s tells of `%s`, which nothing exposes: take the row away", metricsPage, name)
		}
	}
}

// everythingOn are options under which a picker has the families of all of them.
func everythingOn(t *testing.T) Options {
	t.Helper()
	opts := serveOptions(4)
	opts.RecordDir, opts.Sim.Events = t.TempDir(), true
	opts.Config.Events.Listen = "127.0.0.1:0"
	opts.Config.Tokens = config.Tokens{Source: "render", RenderURL: "http://127.0.0.1:9", TimeoutMs: 100, CacheMiB: 1}
	opts.Election, opts.Replica = &vote{leader: "me", over: make(chan struct{})}, "me"
	return opts
}

var described = regexp.MustCompile(`^Desc\{fqName: "(\w+)", help: "(.*?)", .*variableLabels: \{(.*)\}\}$`)

// exposed are our families that a picker with these options has, also those without a
// sample yet.
func exposed(t *testing.T, opts Options) map[string]family {
	t.Helper()
	registry := start(t, opts).server.metrics.Registry().(*prometheus.Registry)
	kinds := map[string]string{}
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range gathered {
		kinds[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		registry.Describe(descs)
	}()
	families := map[string]family{}
	for d := range descs {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot read %s", d)
		}
		if !strings.HasPrefix(m[1], "epp_") {
			continue // Go's and the process's own
		}
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		f := family{labels: "–", help: m[2], kind: kinds[m[1]], sampled: kinds[m[1]] != ""}
		if len(labels) > 0 {
			f.labels = strings.Join(labels, ", ")
		}
		if f.kind == "" && strings.HasSuffix(m[1], "_total") {
			f.kind = "counter"
		}
		families[m[1]] = f
	}
	return families
}

var familyRow = regexp.MustCompile("(?m)^\\| `(epp_\\w+)` \\| (\\w+) \\| ([^|]+) \\| [^|]+ \\| ([^|]+) \\| [^|]+ \\|$")

// documented are the families that the page tells of.
func documented(t *testing.T) map[string]family {
	t.Helper()
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]family{}
	for _, m := range familyRow.FindAllStringSubmatch(string(page), -1) {
		if _, again := rows[m[1]]; again {
			t.Errorf("%s tells of `%s` twice", metricsPage, m[1])
		}
		rows[m[1]] = family{kind: m[2], labels: strings.ReplaceAll(m[3], "`", ""), help: m[4]}
	}
	return rows
}

var familyName = regexp.MustCompile(`^epp_[a-z_]*[a-z]$`)

// namedInCode are the families whose names stand in the program, among them those that
// take a cluster or other replicas to be exposed.
func namedInCode(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "metricview" || d.Name() == "e2e"): // readers
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && familyName.MatchString(s) {
					names[s] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
