package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/internal/benchpage"
	"github.com/eppctl/eppctl/internal/simulate"
)

// loads are the rates of a table, as shares of the capacity. Rows are in the order of
// what was good at the middle one.
var loads = [...]float64{0.6, 0.9, 1.1}

const middle = 1

// variants are policies beyond those that stand for their kinds: presets, and weights
// that give a pod's queue the last word and leave its slow readings of load out.
var variants = []string{
	"eppctl:preset=rag", "eppctl:preset=api-gateway", "eppctl:cache=.3:load=0:queue=.6:maxQueue=8",
	"consistent-hash:bytes=8192",
}

// A table is what came of a fleet.
type table struct {
	pods     int
	capacity float64 // requests a second
	rows     []row
}

// A row is what came of one policy under each load.
type row [len(loads)]simulate.PolicyReport

// table simulates all policies at all loads.
func (f *fleet) table(ctx context.Context) (*table, error) {
	capacity, err := f.capacity(ctx)
	if err != nil {
		return nil, err
	}
	names := append(simulate.Kinds(), variants...)
	t := &table{pods: len(f.pods), capacity: capacity, rows: make([]row, len(names))}
	for i, load := range loads {
		r, err := f.at(ctx, load*capacity, names...)
		if err != nil {
			return nil, err
		}
		for j := range r.Policies {
			t.rows[j][i] = r.Policies[j]
		}
		fmt.Fprintf(f.progress, "%d pods: %d policies at %.3f a second\n", t.pods, len(names), load*capacity)
	}
	slices.SortStableFunc(t.rows, func(a, b row) int { return cmp.Compare(*b[middle].GoodRatio, *a[middle].GoodRatio) })
	return t, nil
}

// markdown is what stands between the markers of the page.
func markdown(trace *simulate.Trace, tables []*table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests, %s, good: `%s`, seed 1. Each cell has the values at 60, 90 and 110 %% of the capacity.\n",
		len(trace.Requests), profile, slo)
	for _, t := range tables {
		fmt.Fprintf(&b, "\n%d pods, capacity %s requests a second:\n\n", t.pods, benchpage.Number(t.capacity))
		b.WriteString("| policy | good, % | at 90 % less `" + baseline + "`, points | cached, % | TTFT p50, s | TTFT p99, s | load max/mean |\n")
		b.WriteString("|---|---:|---:|---:|---:|---:|---:|\n")
		for i := range t.rows {
			b.WriteString(t.rows[i].markdown())
		}
	}
	return b.String()
}

func (r *row) markdown() string {
	ttft := func(at func(*simulate.Quantiles) float64) string {
		return r.cell(func(p *simulate.PolicyReport) string {
			if p.TTFT == nil {
				return "–"
			}
			return benchpage.Number(at(p.TTFT))
		})
	}
	cells := []string{
		"`" + r[middle].Policy + "`",
		r.cell(func(p *simulate.PolicyReport) string { return fmt.Sprintf("%.1f", 100**p.GoodRatio) }),
		r.lead(),
		r.cell(func(p *simulate.PolicyReport) string {
			if p.CacheHitRatio == nil {
				return "–"
			}
			return fmt.Sprintf("%.1f", 100**p.CacheHitRatio)
		}),
		ttft(func(q *simulate.Quantiles) float64 { return q.P50 }),
		ttft(func(q *simulate.Quantiles) float64 { return q.P99 }),
		r.cell(func(p *simulate.PolicyReport) string { return fmt.Sprintf("%.2f", p.LoadMaxOverMean) }),
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// cell has a value for each load.
func (r *row) cell(value func(*simulate.PolicyReport) string) string {
	var texts []string
	for i := range r {
		texts = append(texts, value(&r[i]))
	}
	return strings.Join(texts, " · ")
}

// lead is how much more of the requests was good than under the baseline, and where 95 %
// of bootstrap draws lie.
func (r *row) lead() string {
	for _, d := range r[middle].Difference {
		if d.Metric == "goodRatio" {
			return fmt.Sprintf("%+.1f (%+.1f to %+.1f)", 100*d.Value, 100*d.Low, 100*d.High)
		}
	}
	return "–" // the baseline itself
}
