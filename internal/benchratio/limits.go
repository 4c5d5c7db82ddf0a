package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The unit that most limits are multiples of.
const (
	unitBenchmark = "BenchmarkFingerprint/tokens=4096"
	unitMetric    = "ns/op"
)

// figure names one number of one benchmark.
type figure struct {
	benchmark string // with its sub-benchmarks: "BenchmarkDecide/pods=8"
	metric    string // as go test prints it, or "op/s"
}

// limit is one promise: a line of the limits file.
type limit struct {
	pkg    string // "internal/prefix"
	figure figure
	per    *figure // what it is divided by; nil for the number itself
	bound  float64
	least  bool // the bound is a lower one
	shown  bool // no bound: the figure is only printed
}

// parseLimits reads the limits file: a header, then one limit a line in five
// columns separated by tabs. Lines that start with # are comments.
//
//	package  benchmark  metric  per  limit
//
// per is "unit", "-" for the number itself, or another benchmark, by default
// with the same metric ("name:metric" for another). limit is a number that
// must not be exceeded, ">=" and a number that must be reached, or "-".
func parseLimits(text string) ([]limit, error) {
	var limits []limit
	var problems []error
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		l, err := parseLimit(line)
		if err != nil {
			problems = append(problems, fmt.Errorf("line %d: %w", i+1, err))
			continue
		}
		limits = append(limits, l)
	}
	if len(limits) == 0 && len(problems) == 0 {
		problems = append(problems, errors.New("no limit in it"))
	}
	return limits, errors.Join(problems...)
}

func parseLimit(line string) (limit, error) {
	columns := strings.Split(line, "\t")
	if len(columns) != 5 {
		return limit{}, fmt.Errorf("%d columns, want 5 separated by tabs: package, benchmark, metric, per, limit", len(columns))
	}
	if i := slices.Index(columns, ""); i >= 0 {
		return limit{}, fmt.Errorf("column %d is empty", i+1)
	}
	l := limit{pkg: columns[0], figure: figure{columns[1], columns[2]}}
	if !strings.HasPrefix(l.figure.benchmark, "Benchmark") {
		return limit{}, fmt.Errorf("%q is no benchmark's name", l.figure.benchmark)
	}
	l.per = parsePer(columns[3], l.figure.metric)
	bound, least := strings.CutPrefix(columns[4], ">=")
	l.least = least
	if bound == "-" {
		l.shown = true
		return l, nil
	}
	var err error
	if l.bound, err = strconv.ParseFloat(bound, 64); err != nil || !(l.bound >= 0) {
		return limit{}, fmt.Errorf("limit %q: want a number, >= and a number, or -", columns[4])
	}
	return l, nil
}

func parsePer(text, metric string) *figure {
	switch text {
	case "-":
		return nil
	case "unit":
		return &figure{unitBenchmark, unitMetric}
	}
	// A metric may hold a colon as little as a benchmark's name may.
	if name, other, ok := strings.Cut(text, ":"); ok {
		return &figure{name, other}
	}
	return &figure{text, metric}
}

// packages lists the packages to run, in order of their first appearance, each
// with the top-level benchmarks that its limits and their divisors need. The
// divisor is looked for in the package that has a limit for it, else in the
// same package.
func packages(limits []limit) (order []string, benchmarks map[string][]string) {
	benchmarks = map[string][]string{}
	owner := map[string]string{}
	for _, l := range limits {
		owner[top(l.figure.benchmark)] = l.pkg
	}
	need := func(pkg, benchmark string) {
		if !slices.Contains(order, pkg) {
			order = append(order, pkg)
		}
		if !slices.Contains(benchmarks[pkg], benchmark) {
			benchmarks[pkg] = append(benchmarks[pkg], benchmark)
		}
	}
	for _, l := range limits {
		need(l.pkg, top(l.figure.benchmark))
		if l.per == nil {
			continue
		}
		divisor := top(l.per.benchmark)
		if pkg, ok := owner[divisor]; ok {
			need(pkg, divisor)
		} else {
			need(l.pkg, divisor)
		}
	}
	return order, benchmarks
}

// top is the benchmark function of a sub-benchmark.
func top(benchmark string) string {
	name, _, _ := strings.Cut(benchmark, "/")
	return name
}
