package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/benchpage"
	"github.com/eppctl/eppctl/internal/cli"
)

const output = `goos: linux
goarch: amd64
cpu: Intel(R) Xeon(R)
BenchmarkFingerprint/tokens=4096-2         	  200000	      5000 ns/op	       0 B/op	       0 allocs/op
BenchmarkMemory/pods=8-2	       1	 12345 ns/op	        52.50 bytes/block
BenchmarkNoise
some log line
BenchmarkBroken-2  10  fast ns/op
PASS
`

func TestParseRound(t *testing.T) {
	want := round{
		{"BenchmarkFingerprint/tokens=4096", "ns/op"}:     5000,
		{"BenchmarkFingerprint/tokens=4096", "op/s"}:      200000,
		{"BenchmarkFingerprint/tokens=4096", "B/op"}:      0,
		{"BenchmarkFingerprint/tokens=4096", "allocs/op"}: 0,
		{"BenchmarkMemory/pods=8", "ns/op"}:               12345,
		{"BenchmarkMemory/pods=8", "op/s"}:                1e9 / 12345.0,
		{"BenchmarkMemory/pods=8", "bytes/block"}:         52.5,
	}
	if diff := cmp.Diff(want, parseRound(output, 2), cmp.AllowUnexported(figure{})); diff != "" {
		t.Errorf("parseRound (-want +got):\n%s", diff)
	}
	// On one processor go test adds no suffix, and a name may end like one.
	got := parseRound("BenchmarkX/blocks-1 \t 5\t 3 ns/op\n", 1)
	if _, ok := got[figure{"BenchmarkX/blocks-1", "ns/op"}]; !ok {
		t.Errorf("parseRound on one processor: %v", got)
	}
}

func decide(metric string) figure { return figure{"BenchmarkDecide/pods=8", metric} }

func testReport() report {
	unit := &figure{unitBenchmark, unitMetric}
	limits := []limit{
		{pkg: "score", figure: decide("ns/op"), per: unit, bound: 0.2},
		{pkg: "score", figure: decide("allocs/op"), bound: 0},
		{pkg: "score", figure: decide("op/s"), per: &figure{unitBenchmark, "op/s"}, bound: 5, least: true},
		{pkg: "score", figure: decide("B/op"), shown: true},
		{pkg: "score", figure: figure{"BenchmarkGone", "ns/op"}, per: unit, bound: 1},
	}
	rounds := []round{}
	for _, r := range []struct{ unit, decide float64 }{{5000, 1500}, {10000, 2900}, {5000, 4000}} {
		rounds = append(rounds, round{
			*unit: r.unit, {unitBenchmark, "op/s"}: 1e9 / r.unit,
			decide("ns/op"): r.decide, decide("op/s"): 1e9 / r.decide, decide("allocs/op"): 1, decide("B/op"): 16,
		})
	}
	return compare(limits, rounds)
}

func TestReport(t *testing.T) {
	_, table, _ := strings.Cut(testReport().text(), "\n\n")
	want := "" +
		"BENCHMARK               FIGURE                                     MEDIAN  RANGE      LIMIT  VERDICT\n" +
		"BenchmarkDecide/pods=8  ns/op per unit                                0.3  0.29–0.8   ≤ 0.2  OVER\n" +
		"BenchmarkDecide/pods=8  allocs/op                                       1  1–1        ≤ 0    OVER\n" +
		"BenchmarkDecide/pods=8  op/s per BenchmarkFingerprint/tokens=4096    3.33  1.25–3.45  ≥ 5    OVER\n" +
		"BenchmarkDecide/pods=8  B/op                                           16  16–16      –      shown\n" +
		"BenchmarkGone           ns/op per unit                                  –  –          ≤ 1    missing\n"
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if got := testReport().summary(); !strings.HasPrefix(got, "unit (BenchmarkFingerprint/tokens=4096) 5 µs, median of 3 rounds, go") {
		t.Errorf("summary %q", got)
	}
}

func TestReportFailure(t *testing.T) {
	tests := []struct {
		name   string
		factor float64
		want   []string
	}{
		{"strict", 1, []string{
			"BenchmarkDecide/pods=8: ns/op per unit is 0.3, the limit ≤ 0.2",
			"BenchmarkDecide/pods=8: allocs/op is 1, the limit ≤ 0",
			"BenchmarkDecide/pods=8: op/s per BenchmarkFingerprint/tokens=4096 is 3.33, the limit ≥ 5",
			"BenchmarkGone: no ns/op per unit was measured in score",
		}},
		{"gross regressions only; none is still none", 3, []string{
			"BenchmarkDecide/pods=8: allocs/op is 1, the limit ≤ 0",
			"BenchmarkGone: no ns/op per unit was measured in score",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := testReport().failure(test.factor)
			if err == nil || cli.Status(err) != cli.ExitFindings {
				t.Fatalf("failure(%g) = %v, want findings", test.factor, err)
			}
			if diff := cmp.Diff(test.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
		})
	}
	if err := compare(nil, nil).failure(1); err != nil {
		t.Errorf("nothing to compare: %v", err)
	}
}

func TestMarkdownIntoAPage(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	const begin, end = "<!-- bench-ratios: begin -->\n", "<!-- bench-ratios: end -->\n"
	if err := os.WriteFile(page, []byte("# A\n\n"+begin+"old\n"+end+"\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := testReport()
	var out bytes.Buffer
	if err := publish(r, options{markdown: true, update: page}, &out); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := "# A\n\n" + begin + out.String() + end + "\nb\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if !strings.Contains(out.String(), "| `BenchmarkDecide/pods=8` | ns/op per unit | 0.3 | 0.29–0.8 | ≤ 0.2 | OVER |\n") {
		t.Errorf("Markdown:\n%s", out.String())
	}
}

func TestRunRefuses(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"-x"}, "flag provided but not defined: -x"},
		{"argument", []string{"fast"}, `unexpected argument "fast"`},
		{"no round", []string{"-count", "0"}, "-count: must be 1 or more, got 0"},
		{"factor", []string{"-fail-over", "0.5"}, "-fail-over: must be 1 or more, got 0.5"},
		{"no limits", []string{"-limits", "nowhere.tsv"}, "read the limits: open nowhere.tsv: no such file or directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out, progress bytes.Buffer
			err := run(context.Background(), test.args, &out, &progress)
			if err == nil || err.Error() != test.want || cli.Status(err) != cli.ExitUsage {
				t.Errorf("run(%q): %v with status %d, want %s with status 2", test.args, err, cli.Status(err), test.want)
			}
		})
	}
	if err := run(context.Background(), []string{"-h"}, new(bytes.Buffer), new(bytes.Buffer)); err != nil {
		t.Errorf("run(-h): %v", err)
	}
}

// TestMeasures runs one real benchmark, of this package, through the whole of it.
func TestMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a test binary")
	}
	t.Chdir("../..")
	limits := filepath.Join(t.TempDir(), "limits.tsv")
	text := "internal/benchratio\t" + unitBenchmark + "\tns/op\t-\t1e12\n" +
		"internal/benchratio\tBenchmarkFingerprint/other\tns/op\tunit\t-\n"
	if err := os.WriteFile(limits, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	if err := run(t.Context(), []string{"-limits", limits, "-count", "2", "-benchtime", "10x"}, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	for _, want := range []string{"median of 2 rounds", "≤ 1000000000000  ok\n", "ns/op per unit", "shown\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// BenchmarkFingerprint stands in for the unit in TestMeasures.
func BenchmarkFingerprint(b *testing.B) {
	for _, name := range []string{"tokens=4096", "other"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = benchpage.Number(1.5)
			}
		})
	}
}
