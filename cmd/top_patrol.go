package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/patrol"
	"github.com/eppctl/eppctl/internal/scrape"
	"github.com/eppctl/eppctl/tui"
)

// maxEngines bounds the engines that are looked at.
const maxEngines = 1000

// patrolSource is a fleet that is looked at by its metrics pages: decisions are not
// known.
type patrolSource struct {
	patrol *patrol.Patrol
	// twice holds back what the first look shows, which has no rates.
	twice bool
}

// openPatrol checks the addresses. It does not connect.
func (f *topFlags) openPatrol(c clock.Clock) (*topSource, error) {
	cfg := patrol.Config{Clock: c}
	for _, text := range f.metricsURLs {
		page, err := scrape.URL(strings.TrimSpace(text))
		if err != nil {
			return nil, cli.WithHint(fmt.Errorf("--metrics-url: %w", err), cli.ExitUsage, "")
		}
		cfg.Pickers = append(cfg.Pickers, page)
	}
	pages, names := append([]string{}, cfg.Pickers...), map[string]bool{}
	for _, text := range f.engines {
		e, err := patrol.ParseEngine(text)
		switch {
		case err != nil:
			return nil, cli.WithHint(fmt.Errorf("--engines: %w", err), cli.ExitUsage, "give them as URL,URL or NAME=URL,NAME=URL")
		case e.Name != "" && names[e.Name]:
			return nil, cli.WithHint(fmt.Errorf("--engines: the name %q is given twice", e.Name), cli.ExitUsage, "a pod has one engine")
		}
		names[e.Name] = true
		cfg.Engines, pages = append(cfg.Engines, e), append(pages, e.URL)
	}
	if len(cfg.Engines) > maxEngines {
		return nil, cli.WithHint(fmt.Errorf("--engines: there are %d, and at most %d are looked at", len(cfg.Engines), maxEngines), cli.ExitUsage, "")
	}
	if err := once(pages); err != nil {
		return nil, err
	}
	var err error
	if cfg.Token, err = readToken("token-file", f.tokenFile); err != nil {
		return nil, err
	}
	p := patrol.New(cfg)
	return &topSource{source: &patrolSource{patrol: p}, server: p.Server(), from: explain.SourceMetrics, done: p.Close}, nil
}

// Follow implements [tui.Source]: a look at each interval.
func (s *patrolSource) Follow(ctx context.Context, pace *tui.Pace, send func(tui.Update)) error {
	for first := true; ; first = false {
		snapshot, err := s.patrol.Look(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && len(snapshot.Pods) == 0:
			send(tui.Update{Err: briefPage(err), Retry: pace.Interval()})
		case err != nil || !first || !s.twice:
			send(tui.Update{Snapshot: snapshot})
		}
		if !sleepOr(ctx, pace.Interval(), pace.Changed()) {
			return context.Cause(ctx)
		}
	}
}

// pageDown is why a picker's page can't be read, in few words and with what to do.
type pageDown struct{ err *scrape.Error }

func (e pageDown) Error() string { return e.err.Reason() }

func briefPage(err error) error {
	if e, ok := errors.AsType[*scrape.Error](err); ok {
		return pageDown{e}
	}
	return err
}

// errNoDecisions is what is asked of metrics in vain.
var errNoDecisions = errors.New("metrics tell no decisions; the log of llm-d's picker does: eppctl decisions -f LOG")

// Decision implements [tui.Source].
func (s *patrolSource) Decision(context.Context, string) (*explain.Record, error) {
	return nil, errNoDecisions
}

// Recent implements [tui.Source].
func (s *patrolSource) Recent(context.Context, int) ([]*explain.Record, error) {
	return nil, errNoDecisions
}
