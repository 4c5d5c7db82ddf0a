package patrol

import (
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/metricview"
)

// longest is how far back a window reaches.
var longest = span(len(explain.WindowSeconds) - 1)

// span is how long a window is.
func span(window int) time.Duration {
	return time.Duration(explain.WindowSeconds[window]) * time.Second
}

// past are the pages of one process, oldest first.
type past []*metricview.Page

const (
	// Two pages are so far apart at least, or …
	leastApart = time.Second
	// … this part of their age.
	apartOfAge = 5
)

// add takes the newest page in, and lets pages go that no window needs.
func (p *past) add(page *metricview.Page) {
	old := *p
	for len(old) > 1 && page.At.Sub(old[1].At) >= longest {
		old = old[1:]
	}
	kept := make(past, 0, len(old)+1)
	for i, q := range old {
		if i > 0 && i < len(old)-1 {
			apart := max(leastApart, page.At.Sub(q.At)/apartOfAge)
			if old[i+1].At.Sub(kept[len(kept)-1].At) <= apart {
				continue
			}
		}
		kept = append(kept, q)
	}
	*p = append(kept, page)
}

// last is the newest page, nil without one.
func (p past) last() *metricview.Page {
	if len(p) == 0 {
		return nil
	}
	return p[len(p)-1]
}

// since is what a process did in the last so much time: its newest page with the one
// from which that time begins. That is an older one where none is of that moment, and
// the first one while it is younger. False when there is one page alone.
func (p past) since(window time.Duration) (metricview.Replica, bool) {
	if len(p) < 2 {
		return metricview.Replica{}, false
	}
	r := metricview.Replica{Before: p[0], After: p.last()}
	for _, page := range p[:len(p)-1] {
		if r.After.At.Sub(page.At) >= window {
			r.Before = page
		}
	}
	return r, true
}

// part is which part of the time between two pages a window is: 1 when it is all.
func part(window time.Duration, r metricview.Replica) float64 {
	between := r.After.At.Sub(r.Before.At)
	if between <= window {
		return 1
	}
	return window.Seconds() / between.Seconds()
}
