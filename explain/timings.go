package explain

import (
	"fmt"
	"strings"
)

// stage is a part of the time before the engine got the request.
type stage struct {
	name    string
	seconds float64
	picker  bool // part of the picker's time
}

// stages are those that are known, in their order; of another picker none is.
func (r *Report) stages() []stage {
	t := &r.Timings
	if r.Origin != nil {
		return nil
	}
	var out []stage
	if t.Body != nil {
		out = append(out, stage{"rest of the body", *t.Body, false})
	}
	out = append(out, stage{"parse", t.Parse, true})
	if t.Tokens != nil {
		out = append(out, stage{"tokens", *t.Tokens, true})
	}
	return append(out, stage{"lookup", t.Lookup, true}, stage{"scorers", t.Scorers, true}, stage{"decide", t.Decide, true})
}

// writeTimings tells the stages, and how much of the time they were.
func (r *Report) writeTimings(p *page) {
	t := &r.Timings
	if t.Body != nil {
		p.fact(Plain, "waiting for the rest of the body", millis(*t.Body)+" ms, before the picker's time")
	}
	var parts []string
	for _, s := range r.stages() {
		if s.picker {
			parts = append(parts, s.name+" "+millis(s.seconds))
		}
	}
	p.fact(Plain, "picker", millis(t.Total)+" ms ("+strings.Join(parts, ", ")+")")
	p.fact(Plain, "outside the engine", r.outsideText())
}

// outsideText says how much of the time to the first byte was spent before the
// engine: in the picker, and in waiting for the body, which comes before that time.
// "" when it is not known.
func (r *Report) outsideText() string {
	ttft, t := r.Outcome.TTFTSeconds, &r.Timings
	if r.Origin != nil || ttft == nil || t.Total <= 0 {
		return ""
	}
	clock := r.TimeScale // the stages are wall time, the time to the first byte is the fleet's
	if clock <= 0 {
		clock = 1
	}
	outside, whole, with := t.Total*clock, *ttft, "in the picker"
	if t.Body != nil {
		outside, whole = outside+*t.Body*clock, whole+*t.Body*clock
		with += " and before it"
	}
	if outside > whole {
		return ""
	}
	return fmt.Sprintf("%s of the %s to the first byte, %s", shareText(outside/whole), secondsText(whole), with)
}

// shareText has as many decimals as small shares need.
func shareText(share float64) string {
	switch {
	case share > 0 && share < 0.0001:
		return "under 0.01%"
	case share > 0 && share < 0.01:
		return decimal(share*100, 2) + "%"
	}
	return decimal(share*100, 1) + "%"
}
