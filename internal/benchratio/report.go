package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/internal/benchpage"
	"github.com/eppctl/eppctl/internal/cli"
)

// result is a limit with what was measured, one value a round, sorted. No
// value means that the benchmark, its metric or its divisor is missing.
type result struct {
	limit
	values []float64
}

// report is one comparison.
type report struct {
	results []result
	rounds  int
	unitNs  []float64 // the unit in nanoseconds, one value a round, sorted
}

// compare divides round by round, so that what slows a whole round cancels out.
func compare(limits []limit, rounds []round) report {
	r := report{rounds: len(rounds), unitNs: measure(limit{figure: figure{unitBenchmark, unitMetric}}, rounds)}
	for _, l := range limits {
		r.results = append(r.results, result{l, measure(l, rounds)})
	}
	return r
}

func measure(l limit, rounds []round) []float64 {
	var values []float64
	for _, measured := range rounds {
		value, ok := measured[l.figure]
		if ok && l.per != nil {
			var divisor float64
			divisor, ok = measured[*l.per]
			ok = ok && divisor > 0
			value /= divisor
		}
		if ok && !math.IsNaN(value) {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return values
}

// keeps reports whether the median is within factor times the bound.
func (r result) keeps(factor float64) bool {
	switch {
	case len(r.values) == 0:
		return false
	case r.shown:
		return true
	case r.least:
		return benchpage.Median(r.values)*factor >= r.bound
	default:
		return benchpage.Median(r.values) <= r.bound*factor
	}
}

func (r result) verdict() string {
	switch {
	case len(r.values) == 0:
		return "missing"
	case r.shown:
		return "shown"
	case r.keeps(1):
		return "ok"
	default:
		return "OVER"
	}
}

// failure is the error of a report in which something is missing, or worse
// than its limit by more than the factor. Limits of zero know no factor.
func (r report) failure(factor float64) error {
	var problems []error
	for _, result := range r.results {
		switch {
		case len(result.values) == 0:
			problems = append(problems, fmt.Errorf("%s: no %s was measured in %s",
				result.figure.benchmark, result.what(), result.pkg))
		case !result.keeps(factor):
			problems = append(problems, fmt.Errorf("%s: %s is %s, the limit %s",
				result.figure.benchmark, result.what(), benchpage.Number(benchpage.Median(result.values)), result.boundText()))
		}
	}
	return cli.WithHint(errors.Join(problems...), cli.ExitFindings, "the limits stand in .ci/bench-limits.tsv")
}

// what says which number it is: "ns/op per unit".
func (r result) what() string {
	switch {
	case r.per == nil:
		return r.figure.metric
	case *r.per == figure{unitBenchmark, unitMetric}:
		return r.figure.metric + " per unit"
	case r.per.metric == r.figure.metric:
		return r.figure.metric + " per " + r.per.benchmark
	default:
		return r.figure.metric + " per " + r.per.benchmark + " " + r.per.metric
	}
}

func (r result) boundText() string {
	switch {
	case r.shown:
		return cli.Unknown
	case r.least:
		return "≥ " + benchpage.Number(r.bound)
	default:
		return "≤ " + benchpage.Number(r.bound)
	}
}

func (r result) cells() []string {
	measured, spread := cli.Unknown, cli.Unknown
	if n := len(r.values); n > 0 {
		measured = benchpage.Number(benchpage.Median(r.values))
		spread = benchpage.Number(r.values[0]) + "–" + benchpage.Number(r.values[n-1])
	}
	return []string{r.figure.benchmark, r.what(), measured, spread, r.boundText(), r.verdict()}
}

// headers are the columns of both forms of the table.
var headers = []string{"BENCHMARK", "FIGURE", "MEDIAN", "RANGE", "LIMIT", "VERDICT"}

// summary is the line above the table.
func (r report) summary() string {
	unit := cli.Unknown
	if len(r.unitNs) > 0 {
		unit = benchpage.Number(benchpage.Median(r.unitNs)/1000) + " µs"
	}
	return fmt.Sprintf("unit (%s) %s, median of %d rounds, %s %s/%s, %d processors",
		unitBenchmark, unit, r.rounds, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
}

func (r report) text() string {
	var out bytes.Buffer
	columns := make([]cli.Column, len(headers))
	for i, name := range headers {
		columns[i] = cli.Column{Name: name, Right: name == "MEDIAN"}
	}
	table := cli.Printer{Streams: &cli.Streams{Out: &out}}.Table(columns...)
	for _, result := range r.results {
		table.Row(result.cells()...)
	}
	// A bytes.Buffer takes all that is written to it.
	_ = table.Flush()
	return r.summary() + "\n\n" + out.String()
}

func (r report) markdown() string {
	var b strings.Builder
	b.WriteString(r.summary() + "\n\n")
	b.WriteString("| benchmark | figure | median | range | limit | verdict |\n|---|---|---:|---|---|---|\n")
	for _, result := range r.results {
		cells := result.cells()
		cells[0] = "`" + cells[0] + "`"
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}
