package cmd

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/simulate"
)

// formatCSV is one row a policy, for a spreadsheet.
const formatCSV cli.Format = "csv"

// simulateFormats are the forms of a simulation's report.
var simulateFormats = []cli.Format{cli.FormatText, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, formatCSV, cli.FormatHTML}

// simulateWriter prints a report.
type simulateWriter struct {
	*cli.Streams
	format  cli.Format
	report  *simulate.Report
	runs    *simulate.Runs
	elapsed time.Duration // of the wall's time
}

func (w *simulateWriter) write() error {
	printer := cli.Printer{Streams: w.Streams, Format: w.format}
	switch w.format {
	case cli.FormatJSON, cli.FormatYAML:
		return printer.Document(w.report)
	case formatCSV:
		return w.csv()
	case cli.FormatHTML:
		return w.report.HTML(w.Out, w.runs)
	default:
		return w.text(printer)
	}
}

// A policyColumn is a column of the table, and of CSV. Times are seconds there.
type policyColumn struct {
	cli.Column
	key   string // in CSV
	value func(*simulate.PolicyReport) (number float64, unit string, known bool)
}

var policyColumns = []policyColumn{
	{cli.Column{Name: "CACHED", Right: true}, "cacheHitRatio", func(p *simulate.PolicyReport) (float64, string, bool) {
		if p.CacheHitRatio == nil {
			return 0, "%", false
		}
		return *p.CacheHitRatio, "%", true
	}},
	{cli.Column{Name: "TTFT P50", Right: true}, "ttftSecondsP50", timeOf(ttft, p50)},
	{cli.Column{Name: "P90", Right: true}, "ttftSecondsP90", timeOf(ttft, p90)},
	{cli.Column{Name: "P99", Right: true}, "ttftSecondsP99", timeOf(ttft, p99)},
	{cli.Column{Name: "E2E P50", Right: true, Priority: 2}, "e2eSecondsP50", timeOf(e2e, p50)},
	{cli.Column{Name: "P90", Right: true, Wide: true}, "e2eSecondsP90", timeOf(e2e, p90)},
	{cli.Column{Name: "P99", Right: true, Priority: 2}, "e2eSecondsP99", timeOf(e2e, p99)},
	{cli.Column{Name: "TPOT P50", Right: true, Wide: true}, "tpotSecondsP50", timeOf(tpot, p50)},
	{cli.Column{Name: "P99", Right: true, Wide: true}, "tpotSecondsP99", timeOf(tpot, p99)},
	{cli.Column{Name: "GOOD", Right: true}, "goodRatio", func(p *simulate.PolicyReport) (float64, string, bool) {
		if p.GoodRatio == nil {
			return 0, "%", false
		}
		return *p.GoodRatio, "%", true
	}},
	{cli.Column{Name: "REQ/S", Right: true, Priority: 3}, "throughputRequestsPerSecond", always("", func(p *simulate.PolicyReport) float64 { return p.ThroughputRequests })},
	{cli.Column{Name: "TOK/S", Right: true, Wide: true}, "throughputOutputTokensPerSecond", always("", func(p *simulate.PolicyReport) float64 { return p.ThroughputTokens })},
	{cli.Column{Name: "MAX/MEAN", Right: true, Priority: 1}, "loadMaxOverMean", always("", func(p *simulate.PolicyReport) float64 { return p.LoadMaxOverMean })},
	{cli.Column{Name: "GINI", Right: true, Wide: true}, "loadGini", always("", func(p *simulate.PolicyReport) float64 { return p.LoadGini })},
	{cli.Column{Name: "QUEUE", Right: true, Priority: 1}, "queueMax", always("#", func(p *simulate.PolicyReport) float64 { return float64(p.QueueMax) })},
	{cli.Column{Name: "LOST", Right: true, Priority: 1}, "lost", always("#", func(p *simulate.PolicyReport) float64 { return float64(p.Rejected + p.Refused + p.Failed) })},
	{cli.Column{Name: "ADAPTERS", Right: true, Wide: true}, "adapterLoads", always("#", func(p *simulate.PolicyReport) float64 { return float64(p.AdapterLoads) })},
	{cli.Column{Name: "SAVED", Right: true, Wide: true}, "prefillSavedGPUSeconds", always("s", func(p *simulate.PolicyReport) float64 { return p.PrefillSavedGPUSecond })},
	{cli.Column{Name: "COST", Right: true, Priority: 3}, "costDollars", always("$", func(p *simulate.PolicyReport) float64 { return p.CostDollars })},
}

func always(unit string, value func(*simulate.PolicyReport) float64) func(*simulate.PolicyReport) (float64, string, bool) {
	return func(p *simulate.PolicyReport) (float64, string, bool) { return value(p), unit, true }
}

func timeOf(of func(*simulate.PolicyReport) *simulate.Quantiles, at func(*simulate.Quantiles) float64) func(*simulate.PolicyReport) (float64, string, bool) {
	return func(p *simulate.PolicyReport) (float64, string, bool) {
		if of(p) == nil {
			return 0, "s", false
		}
		return at(of(p)), "s", true
	}
}

func ttft(p *simulate.PolicyReport) *simulate.Quantiles { return p.TTFT }
func e2e(p *simulate.PolicyReport) *simulate.Quantiles  { return p.E2E }
func tpot(p *simulate.PolicyReport) *simulate.Quantiles { return p.TPOT }
func p50(q *simulate.Quantiles) float64                 { return q.P50 }
func p90(q *simulate.Quantiles) float64                 { return q.P90 }
func p99(q *simulate.Quantiles) float64                 { return q.P99 }

// figure writes a value for people.
func figure(v float64, unit string, known bool) string {
	switch {
	case !known:
		return cli.Unknown
	case unit == "%":
		return strconv.FormatFloat(100*v, 'f', 1, 64) + "%"
	case unit == "#":
		return strconv.FormatFloat(v, 'f', 0, 64)
	case unit == "$":
		return "$" + strconv.FormatFloat(v, 'f', 2, 64)
	case unit == "s":
		return shortTime(v)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// shortTime writes a time with two or three digits.
func shortTime(v float64) string {
	switch abs := max(v, -v); {
	case abs < 1:
		return strconv.FormatFloat(1000*v, 'f', 0, 64) + "ms"
	case abs < 100:
		return strconv.FormatFloat(v, 'f', 2, 64) + "s"
	default:
		return strconv.FormatFloat(v, 'f', 0, 64) + "s"
	}
}

// text prints the table of policies, and how they differ from the baseline.
func (w *simulateWriter) text(printer cli.Printer) error {
	r := w.report
	var gpus []string
	for _, name := range slices.Sorted(maps.Keys(r.PodsByGPU)) {
		gpus = append(gpus, fmt.Sprintf("%d %s", r.PodsByGPU[name], name))
	}
	rate := "all at once"
	if r.RequestsPerSecond > 0 {
		rate = fmt.Sprintf("%.2f a second", r.RequestsPerSecond)
	}
	fmt.Fprintf(w.Out, "%s: %d requests, %s, on %s (%s), seed %d\n", cli.Sanitize(r.Trace), r.Requests, rate, strings.Join(gpus, " and "), cli.Sanitize(r.Profile), r.Seed)
	if r.SLO != "" {
		fmt.Fprintf(w.Out, "good: %s\n", cli.Sanitize(r.SLO))
	}
	fmt.Fprintln(w.Out)
	if err := w.policies(printer); err != nil {
		return err
	}
	if err := w.differences(printer); err != nil {
		return err
	}
	simulated := float64(r.Requests * len(r.Policies))
	fmt.Fprintf(w.Err, "eppctl: %.0f requests simulated in %s: %.0f a second\n", simulated, w.elapsed.Round(10*time.Millisecond), simulated/max(w.elapsed.Seconds(), 1e-3))
	return nil
}

// policies prints the table; what is good is left out where nobody said.
func (w *simulateWriter) policies(printer cli.Printer) error {
	shown := slices.Clone(policyColumns)
	if w.report.SLO == "" {
		shown = slices.DeleteFunc(shown, func(c policyColumn) bool { return c.Name == "GOOD" })
	}
	columns := []cli.Column{{Name: "POLICY"}}
	for _, c := range shown {
		columns = append(columns, c.Column)
	}
	table := printer.Table(columns...)
	for i := range w.report.Policies {
		row := []string{w.report.Policies[i].Policy}
		for _, c := range shown {
			row = append(row, figure(c.value(&w.report.Policies[i])))
		}
		table.Row(row...)
	}
	return table.Flush()
}

// differences prints what the policies have more than the baseline: the values of the
// table in a row, or with -o wide each in a row of its own.
func (w *simulateWriter) differences(printer cli.Printer) error {
	r := w.report
	if len(r.Policies) < 2 {
		return nil
	}
	if !slices.ContainsFunc(r.Policies, func(p simulate.PolicyReport) bool { return p.Difference != nil }) {
		fmt.Fprintf(w.Out, "\nno differences from %s: too few requests were completed\n", cli.Sanitize(r.Baseline))
		return nil
	}
	fmt.Fprintf(w.Out, "\nless %s, and where 95%% of bootstrap draws lie (shares in points):\n\n", cli.Sanitize(r.Baseline))
	if w.format == cli.FormatWide {
		return w.allDifferences(printer)
	}
	shown := []struct{ metric, name string }{{"cacheHitRatio", "CACHED"}, {"ttftSeconds.p50", "TTFT P50"}, {"ttftSeconds.p90", "TTFT P90"}}
	if r.SLO != "" {
		shown = append(shown, struct{ metric, name string }{"goodRatio", "GOOD"})
	}
	columns := []cli.Column{{Name: "POLICY"}}
	for _, c := range shown {
		columns = append(columns, cli.Column{Name: c.name, Right: true})
	}
	table := printer.Table(columns...)
	for i := range r.Policies {
		p := &r.Policies[i]
		if p.Policy == r.Baseline {
			continue
		}
		row := []string{p.Policy}
		for _, c := range shown {
			row = append(row, between(p.Difference, c.metric))
		}
		table.Row(row...)
	}
	return table.Flush()
}

// between writes the difference in a metric, with its interval.
func between(all []simulate.Difference, metric string) string {
	for _, d := range all {
		if d.Metric == metric {
			return fmt.Sprintf("%s (%s to %s)", difference(metric, d.Value), difference(metric, d.Low), difference(metric, d.High))
		}
	}
	return cli.Unknown
}

func (w *simulateWriter) allDifferences(printer cli.Printer) error {
	table := printer.Table(
		cli.Column{Name: "POLICY"}, cli.Column{Name: "METRIC"}, cli.Column{Name: "DIFFERENCE", Right: true},
		cli.Column{Name: "LOW", Right: true}, cli.Column{Name: "HIGH", Right: true},
	)
	for i := range w.report.Policies {
		p := &w.report.Policies[i]
		for _, d := range p.Difference {
			table.Row(p.Policy, d.Metric, difference(d.Metric, d.Value), difference(d.Metric, d.Low), difference(d.Metric, d.High))
		}
	}
	return table.Flush()
}

// difference writes a difference with its sign: of shares in percentage points.
func difference(metric string, v float64) string {
	sign := ""
	if v > 0 {
		sign = "+"
	}
	if strings.HasSuffix(metric, "Ratio") {
		return sign + strconv.FormatFloat(100*v, 'f', 1, 64)
	}
	return sign + shortTime(v)
}

// csv prints a row a policy.
func (w *simulateWriter) csv() error {
	out := csv.NewWriter(w.Out)
	header := []string{"policy", "requests"}
	for _, c := range policyColumns {
		header = append(header, c.key)
	}
	_ = out.Write(header) // Flush tells
	for i := range w.report.Policies {
		p := &w.report.Policies[i]
		row := []string{p.Policy, strconv.Itoa(p.Requests)}
		for _, c := range policyColumns {
			text := ""
			if v, _, known := c.value(p); known {
				text = strconv.FormatFloat(v, 'g', -1, 64)
			}
			row = append(row, text)
		}
		_ = out.Write(row)
	}
	out.Flush()
	return out.Error()
}
