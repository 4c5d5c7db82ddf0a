package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/load"
	"github.com/eppctl/eppctl/internal/record"
)

// Load describes the built-in traffic.
type Load struct {
	Source load.Source
	Limit  int
	Stay   bool // go on serving after its end

	Progress io.Writer // gets a line about once a second
	Terminal bool      // Progress is a terminal: the line is written over
	Summary  io.Writer
}

// ParseLoad reads the value of --sim-load: a rate of requests a simulated second,
// or the path of a trace.
func ParseLoad(text string, limit int, rate float64) (*Load, error) {
	if limit < 0 {
		return nil, fmt.Errorf("--sim-load-limit: must not be negative, got %d", limit)
	}
	if !(rate > 0 && rate <= 1e6) {
		return nil, fmt.Errorf("--sim-load-rate: must be above 0, got %v", rate)
	}
	if perSecond, err := strconv.ParseFloat(text, 64); err == nil {
		if !(perSecond > 0 && perSecond <= math.MaxUint16) {
			return nil, fmt.Errorf("--sim-load: the rate must be between 0 and %d requests a second, got %v", math.MaxUint16, perSecond)
		}
		return &Load{Source: load.NewConversations(perSecond*rate, 1), Limit: limit}, nil
	}
	trace, err := load.OpenTrace(text, rate)
	if bad, ok := errors.AsType[*load.RateError](err); ok {
		return nil, bad
	}
	if err != nil {
		return nil, fmt.Errorf("--sim-load %s: neither a rate nor a trace: %w", text, err)
	}
	return &Load{Source: trace, Limit: limit}, nil
}

// runLoad sends the traffic through the gateway and sums up its records.
func (s *Server) runLoad(ctx context.Context) error {
	l := s.opts.Load
	result, err := load.Run(ctx, load.Config{
		Source: l.Source, URL: "http://" + address(s.listeners.gateway), Model: s.fleet.Model(), Clock: s.clock, Limit: l.Limit, Drain: s.opts.Drain,
		Progress: l.progress,
	})
	if err = errors.Join(err, l.Source.Close()); err != nil {
		return fmt.Errorf("--sim-load: %w", err)
	}
	if l.Terminal {
		fmt.Fprintln(l.Progress)
	}
	summary := load.NewSummary(result)
	// A shutdown must not keep the summary from being made.
	err = s.store.Walk(context.WithoutCancel(ctx), record.Query{Since: result.Started}, func(rec *explain.Record) bool {
		summary.Add(rec)
		return true
	})
	if err != nil {
		return fmt.Errorf("--sim-load: sum up: %w", err)
	}
	summary.Ledger = s.pool.InFlight()
	if err := summary.Write(l.Summary); err != nil {
		return err
	}
	if summary.Errors > 0 && ctx.Err() == nil && !l.Stay {
		return fmt.Errorf("--sim-load: %d of %d requests failed", summary.Errors, summary.Requests)
	}
	return nil
}

// progress writes how far the traffic has come.
func (l *Load) progress(p load.Progress) {
	if l.Progress == nil {
		return
	}
	begin, end := "", "\n"
	if l.Terminal {
		begin, end = "\r", "\x1b[K"
	}
	fmt.Fprintf(l.Progress, "%ssim-load: %s: %d sent, %d done, %d failed%s", begin, p.Elapsed.Round(time.Second), p.Sent, p.Done, p.Failed, end)
}
