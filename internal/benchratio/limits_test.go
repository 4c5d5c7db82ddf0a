package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLimits(t *testing.T) {
	text := "# comment\n" +
		"internal/prefix\tBenchmarkFingerprint/tokens=4096\tns/op\tBenchmarkChain\t1.3\n" +
		"\n" +
		"score\tBenchmarkDecide/pods=8\tns/op\tunit\t0.2\n" +
		"score\tBenchmarkDecide/pods=8\tallocs/op\t-\t0\n" +
		"internal/picker\tBenchmarkPick/parallel\top/s\tBenchmarkPick/serial\t>=1.4\n" +
		"internal/prefix\tBenchmarkLookup/busy\tp99-ns\tBenchmarkLookup/quiet:p99-ns\t-\n"
	got, err := parseLimits(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []limit{
		{
			pkg: "internal/prefix", figure: figure{"BenchmarkFingerprint/tokens=4096", "ns/op"},
			per: &figure{"BenchmarkChain", "ns/op"}, bound: 1.3,
		},
		{pkg: "score", figure: figure{"BenchmarkDecide/pods=8", "ns/op"}, per: &figure{unitBenchmark, unitMetric}, bound: 0.2},
		{pkg: "score", figure: figure{"BenchmarkDecide/pods=8", "allocs/op"}},
		{
			pkg: "internal/picker", figure: figure{"BenchmarkPick/parallel", "op/s"},
			per: &figure{"BenchmarkPick/serial", "op/s"}, bound: 1.4, least: true,
		},
		{
			pkg: "internal/prefix", figure: figure{"BenchmarkLookup/busy", "p99-ns"},
			per: &figure{"BenchmarkLookup/quiet", "p99-ns"}, shown: true,
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(limit{}, figure{})); diff != "" {
		t.Errorf("parseLimits (-want +got):\n%s", diff)
	}
	order, benchmarks := packages(got)
	if diff := cmp.Diff([]string{"internal/prefix", "score", "internal/picker"}, order); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	wantBenchmarks := map[string][]string{
		"internal/prefix": {"BenchmarkFingerprint", "BenchmarkChain", "BenchmarkLookup"},
		"score":           {"BenchmarkDecide"}, "internal/picker": {"BenchmarkPick"},
	}
	if diff := cmp.Diff(wantBenchmarks, benchmarks); diff != "" {
		t.Errorf("benchmarks (-want +got):\n%s", diff)
	}
}

func TestParseLimitsNamesThePlace(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"too few columns", "score\tBenchmarkX\n", "line 1: 2 columns, want 5 separated by tabs: package, benchmark, metric, per, limit"},
		{"empty column", "score\tBenchmarkX\t\t-\t1\n", "line 1: column 3 is empty"},
		{"no benchmark", "# x\nscore\tTestX\tns/op\t-\t1\n", `line 2: "TestX" is no benchmark's name`},
		{"no number", "score\tBenchmarkX\tns/op\t-\tfast\n", `line 1: limit "fast": want a number, >= and a number, or -`},
		{"not a number", "score\tBenchmarkX\tns/op\t-\tNaN\n", `line 1: limit "NaN": want a number, >= and a number, or -`},
		{"nothing", "# x\n", "no limit in it"},
		{"two of them", "a\nb\n", "line 1: 1 columns, want 5 separated by tabs: package, benchmark, metric, per, limit\n" +
			"line 2: 1 columns, want 5 separated by tabs: package, benchmark, metric, per, limit"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := parseLimits(test.text); err == nil || err.Error() != test.want {
				t.Errorf("parseLimits: %v, want %s", err, test.want)
			}
		})
	}
}

func TestCommittedLimits(t *testing.T) {
	text, err := os.ReadFile("../../.ci/bench-limits.tsv")
	if err != nil {
		t.Fatal(err)
	}
	limits, err := parseLimits(string(text))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[figure]map[string]bool{}
	for _, l := range limits {
		if seen[l.figure] == nil {
			seen[l.figure] = map[string]bool{}
		}
		if what := (result{limit: l}).what(); seen[l.figure][what] {
			t.Errorf("%s: two limits for %s", l.figure.benchmark, what)
		} else {
			seen[l.figure][what] = true
		}
		if _, err := os.Stat("../../" + l.pkg); err != nil {
			t.Errorf("%s: %v", l.figure.benchmark, err)
		}
	}
}
