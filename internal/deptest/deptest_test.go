package deptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/eppctl/eppctl"

// graph is the import graph: for each package of the module, named by its path
// below the module ("." is main), what it imports outside of tests.
type graph map[string][]string

func TestArrows(t *testing.T) {
	packages := list(t)
	if len(packages) < 5 {
		t.Fatalf("go list found %d packages, so this test sees nothing", len(packages))
	}
	for _, r := range rules {
		t.Run(r.why, func(t *testing.T) {
			for _, violation := range r.violations(packages) {
				t.Error(violation)
			}
		})
	}
}

func TestEachRuleBites(t *testing.T) {
	for _, r := range rules {
		t.Run(r.why, func(t *testing.T) {
			from, to := r.example[0], r.example[1]
			if got := r.violations(graph{from: {to}}); len(got) != 1 {
				t.Errorf("%s imports %s: %q, want one violation", from, to, got)
			}
			const between = "internal/e2e/between" // free of most rules itself
			got := len(r.violations(graph{from: {between}, between: {to}})) > 0
			itself := r.forbids(between) || match(between, r.from) && !match(between, r.not)
			if want := !r.direct || itself; got != want {
				t.Errorf("%s imports %s through another package: caught %t, want %t", from, to, got, want)
			}
			if (r.only == nil) == (r.deny == nil) {
				t.Error("a rule has either only or deny")
			}
		})
	}
}

// What other modules bring in counts too here, since it counts for the size.
func TestNothingLargeIsLinked(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-tags", "grpcnotrace", "-deps", ".")
	command.Dir = "../.."
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, "k8s.io/client-go/rest") {
		t.Fatal("the program has no client-go at all, so this test sees nothing")
	}
	for _, pkg := range linked {
		if match(pkg, large) {
			t.Errorf("%s is in the program: it would be megabytes larger", pkg)
		}
	}
}

func TestPackageNames(t *testing.T) {
	for pkg := range list(t) {
		if slices.Contains(emptyNames, path.Base(pkg)) {
			t.Errorf("package %s: name it for what it provides", pkg)
		}
	}
}

func TestTopLevel(t *testing.T) {
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	ignored := []string{"eppctl", "dist", "*.test", "*.prof", "*.out"}
	for _, entry := range entries {
		name := entry.Name()
		matches := func(pattern string) bool { ok, err := path.Match(pattern, name); return ok && err == nil }
		if strings.HasPrefix(name, ".") || slices.Contains(topLevel, name) || slices.ContainsFunc(ignored, matches) {
			continue
		}
		t.Errorf("%s lies at the top level, where only %s belong", name, strings.Join(topLevel, ", "))
	}
}

// violations tells each import that breaks r, with the way it comes in.
func (r rule) violations(packages graph) []string {
	var found []string
	for _, from := range slices.Sorted(maps.Keys(packages)) {
		if !match(from, r.from) || match(from, r.not) {
			continue
		}
		ways := map[string][]string{} // imported package → how it came in
		packages.reach(from, []string{from}, r.direct, ways)
		for _, to := range slices.Sorted(maps.Keys(ways)) {
			if r.forbids(to) {
				found = append(found, fmt.Sprintf("%s: %s", strings.Join(ways[to], " → "), r.why))
			}
		}
	}
	return found
}

// reach collects what pkg imports. Third-party and standard packages are ends:
// what lies below them is theirs.
func (g graph) reach(pkg string, way []string, direct bool, ways map[string][]string) {
	for _, to := range g[pkg] {
		if _, seen := ways[to]; seen {
			continue
		}
		ways[to] = append(slices.Clone(way), to)
		if !direct {
			g.reach(to, ways[to], direct, ways)
		}
	}
}

func (r rule) forbids(to string) bool {
	if r.only != nil {
		return !match(to, r.only)
	}
	return match(to, r.deny)
}

// match reports whether pkg fits one of the patterns: "score" is that package,
// "score/..." it and all below, "..." any of the module, "std" any of the
// standard library.
func match(pkg string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		switch tree, isTree := strings.CutSuffix(pattern, "/..."); {
		case pattern == "...":
			return ours(pkg)
		case pattern == "std":
			return standard(pkg)
		case isTree:
			return pkg == tree || strings.HasPrefix(pkg, tree+"/")
		default:
			return pkg == pattern
		}
	})
}

// ours reports whether a package is the module's: its top level is known.
func ours(pkg string) bool {
	top, _, _ := strings.Cut(pkg, "/")
	return slices.Contains([]string{".", "cmd", "score", "explain", "tui", "internal"}, top)
}

// standard reports whether a package is the standard library's: no dot in the
// first element of its path.
func standard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !ours(pkg) && !strings.Contains(first, ".")
}

// list asks the go command for the module's packages and their imports. With -e
// it answers even when a package does not build: that is for other tests to say.
func list(t *testing.T) graph {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports", "./...")
	command.Dir = "../.."
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, complaints.String())
	}
	packages := graph{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var listed struct {
			ImportPath string
			Imports    []string
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("read the output of go list: %v", err)
		}
		imports := make([]string, len(listed.Imports))
		for i, imported := range listed.Imports {
			imports[i] = local(imported)
		}
		packages[local(listed.ImportPath)] = imports
	}
}

// local is the path of a package below the module, or its whole path.
func local(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}
