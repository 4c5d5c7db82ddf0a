package kube

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/logkey"
)

// trouble keeps what is wrong with the watches, and says it: at once, then at
// intervals that grow, and when it is over.
type trouble struct {
	log     *slog.Logger
	changed func()

	mu       sync.Mutex
	problems map[string]*ongoing // by what is concerned
	failures uint64
}

// ongoing is a problem that is not over.
type ongoing struct {
	Problem
	said       time.Time // zero = not yet
	saidReason string
	pause      time.Duration // until it is said again; 0 = it is not
}

// It is said again after firstPause, and so on twice as long, up to lastPause.
const (
	firstPause = time.Minute
	lastPause  = time.Hour
)

// forbiddenFor is how long a right must be missing to be said: an API server that has
// just started refuses everything until it has read its roles.
const forbiddenFor = 3 * time.Second

// add notes a failure. A lasting one, which nothing but an operator ends, is said
// once, when it has lasted.
func (t *trouble) add(what, reason string, lasting bool) {
	t.mu.Lock()
	t.failures++
	now, p := clock.Wall{}.Now(), t.problems[what]
	fresh := p == nil
	if fresh {
		p = &ongoing{Problem: Problem{What: what, Since: now}}
		t.problems[what] = p
	}
	say, since := p.add(now, reason, lasting), now.Sub(p.Since)
	t.mu.Unlock()
	if say {
		t.log.Warn("no news from the API server, the last known pods stand", slog.String(logkey.What, what), slog.String(logkey.Reason, reason), slog.Float64(logkey.SinceSeconds, since.Round(time.Second).Seconds()))
	}
	if fresh {
		t.changed()
	}
}

// add notes another failure, and reports whether it is to be said.
func (p *ongoing) add(now time.Time, reason string, lasting bool) (say bool) {
	held := lasting && now.Sub(p.Since) < forbiddenFor
	again := p.pause > 0 && now.Sub(p.said) >= p.pause
	p.Reason, p.Forbidden = reason, lasting && !held
	if held || !p.said.IsZero() && !again && (!lasting || p.saidReason == reason) {
		return false
	}
	switch {
	case lasting:
		p.pause = 0
	case again:
		p.pause = min(2*p.pause, lastPause)
	default:
		p.pause = firstPause
	}
	p.said, p.saidReason = now, reason
	return true
}

// unsaid reports whether there is a problem of which nothing was said yet.
func (t *trouble) unsaid(what string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.problems[what]
	return p != nil && p.said.IsZero()
}

// over says that there is nothing wrong any more.
func (t *trouble) over(what string) {
	if p := t.forget(what); p != nil && !p.said.IsZero() {
		t.log.Info("news from the API server again", slog.String(logkey.What, what),
			slog.Float64(logkey.AfterSeconds, clock.Wall{}.Now().Sub(p.Since).Round(time.Second).Seconds()))
	}
}

// forget drops what was wrong, if anything was, as where nobody looks any more.
func (t *trouble) forget(what string) *ongoing {
	t.mu.Lock()
	p := t.problems[what]
	delete(t.problems, what)
	t.mu.Unlock()
	if p != nil {
		t.changed()
	}
	return p
}

// list is what is wrong now, and how often something failed.
func (t *trouble) list() (problems []Problem, failures uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range maps.Values(t.problems) {
		problems = append(problems, p.Problem)
	}
	slices.SortFunc(problems, func(a, b Problem) int { return cmp.Compare(a.What, b.What) })
	return problems, t.failures
}
