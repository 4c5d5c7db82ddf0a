package simulate

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed report.html
var reportPage string

// HTML writes the report as one page that loads nothing: a table, the distribution of
// times to the first token, and what each pod did.
func (r *Report) HTML(w io.Writer, runs *Runs) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"percent": func(v float64) string { return strconv.FormatFloat(100*v, 'f', 1, 64) + "%" },
		"seconds": func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) },
		"width":   func(v, most float64) string { return strconv.FormatFloat(300*ratio(v, most), 'f', 1, 64) },
		"fixed":   func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) },
		"color":   color,
		"add":     func(a, b int) int { return a + b },
		"times":   func(a, b int) int { return a * b },
		"points":  signed,
	}).Parse(reportPage)
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		*Report
		Chart    chart
		MostBusy float64
	}{r, runs.distribution(), r.mostBusy()})
}

// signed is a difference with its interval: shares in points, times in seconds.
func signed(d Difference) string {
	format := "%+.3g s (%+.3g to %+.3g)"
	if strings.HasSuffix(d.Metric, "Ratio") {
		format = "%+.1f points (%+.1f to %+.1f)"
		d.Value, d.Low, d.High = 100*d.Value, 100*d.Low, 100*d.High
	}
	return fmt.Sprintf(format, d.Value, d.Low, d.High)
}

// color is that of the i-th policy, of an even spread of hues.
func color(i int) template.CSS {
	const golden = 137.5                                                                          // degrees: neighbours differ
	return template.CSS(fmt.Sprintf("hsl(%.0f 65%% 45%%)", math.Mod(210+golden*float64(i), 360))) //nolint:gosec // a number alone
}

func (r *Report) mostBusy() (most float64) {
	for i := range r.Policies {
		for _, p := range r.Policies[i].PerPod {
			most = max(most, p.BusySeconds)
		}
	}
	return most
}

// A chart is the shares of requests with their first token after so many seconds, in
// logarithmic time.
type chart struct {
	Width, Height int
	Lines         []string // points of polylines, by policy
	Ticks         []tick
}

type tick struct {
	X    float64
	Text string
}

// distribution draws it.
func (r *Runs) distribution() chart {
	const width, height, steps = 640, 260, 200
	c := chart{Width: width, Height: height}
	all := make([][]time.Duration, len(r.Runs))
	least, most := time.Hour, time.Millisecond
	for i := range r.Runs {
		for k := range r.Runs[i].Outcomes {
			if o := &r.Runs[i].Outcomes[k]; o.Ending == Completed {
				all[i] = append(all[i], o.TTFT)
				least, most = min(least, max(time.Millisecond, o.TTFT)), max(most, o.TTFT)
			}
		}
		slices.Sort(all[i])
	}
	low, high := math.Log10(least.Seconds()), math.Log10(most.Seconds())
	span := max(high-low, 0.1)
	for _, times := range all {
		var b strings.Builder
		for k := range steps + 1 {
			at := time.Duration(math.Pow(10, low+span*float64(k)/steps) * float64(time.Second))
			n, _ := slices.BinarySearch(times, at+1)
			fmt.Fprintf(&b, "%.1f,%.1f ", float64(k)*width/steps, height*(1-ratio(float64(n), float64(len(times)))))
		}
		c.Lines = append(c.Lines, b.String())
	}
	for e := math.Ceil(low); e <= high; e++ {
		c.Ticks = append(c.Ticks, tick{(e - low) / span * width, strconv.FormatFloat(math.Pow(10, e), 'g', 3, 64) + " s"})
	}
	return c
}
