package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// writeGateway says what the gateway in front said of the request.
func (r *Report) writeGateway(p *page) {
	g := r.Gateway
	if g == nil {
		return
	}
	text := g.Kind
	if g.RequestBody != "" {
		text += ", request body " + g.RequestBody
	}
	if g.ResponseBody != "" {
		text += ", response body " + g.ResponseBody
	}
	p.fact(Plain, "gateway", strings.TrimPrefix(text, ", "))
	p.fact(Plain, "subset", g.Subset.text())
	if r.Picked != nil {
		fallbacks := names(g.Fallbacks)
		if p.opt.All {
			fallbacks = strings.Join(g.Fallbacks, ", ")
		}
		p.fact(Plain, "fallbacks", cmp.Or(fallbacks, "none"))
	}
}

func (s *Subset) text() string {
	switch {
	case s == nil:
		return "none given: every pod was allowed"
	case s.Count == 0:
		return "empty: no pod was allowed"
	}
	text := count(s.Count, "endpoint") + " allowed (" + strings.Join(s.Addresses, ", ")
	if more := s.Count - len(s.Addresses); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	text += ")"
	switch s.Unknown {
	case 0:
		return text
	case s.Count:
		return text + "; no pod has any of them"
	}
	return text + fmt.Sprintf("; no pod has %d of them", s.Unknown)
}

// strangers warns of a subset that speaks of endpoints which the pool doesn't have.
func (r *Report) strangers() string {
	if r.Gateway == nil || r.Gateway.Subset == nil || r.Gateway.Subset.Unknown == 0 {
		return ""
	}
	s := r.Gateway.Subset
	if s.Unknown == s.Count {
		return "no pod has any of the endpoints that the gateway allows: gateway and picker see different pools"
	}
	return fmt.Sprintf("no pod has %d of the %d endpoints that the gateway allows", s.Unknown, s.Count)
}

// moved reports whether the gateway in front had another pod serve.
func (r *Report) moved() bool { return movedByGateway(r.Attempts) }

func movedByGateway(attempts []Attempt) bool {
	return len(attempts) > 1 && attempts[0].Error == MovedByGateway
}

// servedElsewhere says loudly that another endpoint served than was picked,
// unless attempts of the picker's own account for it.
func (r *Report) servedElsewhere() string {
	served := r.Outcome.ServedEndpoint
	if r.Picked == nil || served == nil || *served == r.Picked.Endpoint || (len(r.Attempts) > 1 && !r.moved()) {
		return ""
	}
	text := "served by " + *served + ", which no pod of the pool has"
	if r.moved() {
		text = "served by " + r.Attempts[len(r.Attempts)-1].Pod + " (" + *served + ")"
	}
	text += ", not by " + r.Picked.Pod + " (" + r.Picked.Endpoint + "), which was picked"
	if r.Gateway != nil {
		if i := slices.Index(r.Gateway.Fallbacks, *served); i >= 0 {
			return text + fmt.Sprintf(": the gateway went on to fallback %d", i+1)
		}
		return text + ": the gateway chose it by itself"
	}
	return text
}

// writeAttempts lists the tries, and what the gateway in front says of them.
func (r *Report) writeAttempts(p *page) {
	o := &r.Outcome
	for i, a := range r.Attempts {
		key, text := fmt.Sprintf("attempt %d", i+1), a.Pod+" ("+a.Endpoint+") "
		switch {
		case !r.moved():
			text += o.attempt(&a)
		case a.Error == "":
			key, text = "served", strings.TrimSpace(text)
		default:
			key, text = "picked", text+"did not serve: "+a.Error
		}
		p.fact(Plain, key, text)
	}
	tone := Plain
	if o.Attempts != nil {
		if *o.Attempts > 1 {
			tone = Warn
		}
		p.fact(tone, "attempts", strconv.Itoa(*o.Attempts)+" by the gateway")
	}
	p.fact(Warn, "response flags", o.Flags)
	p.fact(Plain, "response details", o.CodeDetails)
}
