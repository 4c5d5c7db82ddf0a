package tune

import (
	"fmt"
	"strings"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// Config is a fragment of a configuration for 'eppctl serve': the suggested weights, or
// those in force when they are best kept.
func (a *Advice) Config() string {
	w, ms := &a.Weights, (*float64)(nil)
	if a.Suggestion != nil {
		w, ms = &a.Suggestion.Weights, a.Suggestion.PodReportIntervalMs
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", explain.Sanitize(a.Verdict))
	for _, doubt := range a.Doubts {
		fmt.Fprintf(&b, "# not confident: %s\n", explain.Sanitize(doubt))
	}
	b.WriteString("weights:\n")
	for i, v := range []float64{w.Cache, w.Load, w.Queue, w.Health, w.Adapter} {
		fmt.Fprintf(&b, "  %s: %s\n", score.WeightKeys()[i], short(v))
	}
	for _, c := range w.Custom {
		fmt.Fprintf(&b, "  %q: %s\n", c.Name, short(c.Weight))
	}
	fmt.Fprintf(&b, "maxQueue: %d\nmaxUtilization: %s\nsaturation: %s\n", w.MaxQueue, short(w.MaxUtilization), w.Saturation)
	if ms != nil {
		fmt.Fprintf(&b, "intervals:\n  podReportIntervalMs: %s\n", short(*ms))
	}
	return b.String()
}
