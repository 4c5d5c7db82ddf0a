package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/eppctl/eppctl/explain"
)

// Options say how the dashboard runs.
type Options struct {
	Look          Look
	Width, Height int // of a terminal that does not tell its own
	Compact       bool
	Mouse         bool
	ReduceMotion  bool // redraw on data alone
	Interval      time.Duration
	Now           func() time.Time
	// Explain is a decision to begin with; "" for none.
	Explain string
	// Command is how a shell asks for the explanation of a request.
	Command func(requestID string) string
	// Save writes a report and says where it is.
	Save func(*explain.Snapshot, []*explain.Record) (path string, err error)

	Input  io.Reader
	Output io.Writer
	Env    []string // as os.Environ has it
}

// fps bounds how often the screen is written; it is drawn on news alone.
const fps = 20

// Run shows the dashboard until somebody quits, and returns when everything has ended.
// It returns nil when ctx ends.
func Run(ctx context.Context, src Source, opt Options) error {
	return run(ctx, src, opt, func(m *Model) tea.Model { return m }, func(*tea.Program) {})
}

// run is Run with something around the model and a look at the program, for tests.
func run(ctx context.Context, src Source, opt Options, around func(*Model) tea.Model, started func(*tea.Program)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opt.Width, opt.Height = max(opt.Width, 1), max(opt.Height, 1)
	pace := NewPace(opt.Interval)
	p := tea.NewProgram(around(newModel(opt, questions(ctx, src, opt), pace)), opt.program(ctx)...)
	started(p)
	var following sync.WaitGroup
	var failed error
	following.Go(func() {
		if err := src.Follow(ctx, pace, func(u Update) { p.Send(u) }); err != nil && ctx.Err() == nil {
			failed = err
			p.Quit()
		}
	})
	_, err := p.Run()
	cancel()
	following.Wait()
	switch {
	case failed != nil:
		return failed
	case errors.Is(err, tea.ErrProgramPanic):
		return errors.New("the dashboard broke: see the text above; please report it")
	case err == nil, errors.Is(err, tea.ErrInterrupted), errors.Is(err, context.Canceled):
		return nil
	}
	return fmt.Errorf("show the dashboard: %w", err)
}

// questions puts the source behind the functions that commands call. A call that
// still runs when somebody quits ends with ctx.
func questions(ctx context.Context, src Source, opt Options) asks {
	a := asks{
		decision: func(id string) (*explain.Record, error) { return src.Decision(ctx, id) },
		recent:   func(limit int) ([]*explain.Record, error) { return src.Recent(ctx, limit) },
		save:     opt.Save,
	}
	if player, ok := src.(Player); ok {
		a.step, a.play = player.Step, player.Play
	}
	if other, ok := src.(Switcher); ok {
		a.other = func(namespace, pool string) (string, error) { return other.Switch(ctx, namespace, pool) }
	}
	return a
}

// program are the options of Bubble Tea. Signals are the caller's: they end ctx.
func (o *Options) program(ctx context.Context) []tea.ProgramOption {
	return []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithWindowSize(o.Width, o.Height), tea.WithoutSignalHandler(), tea.WithFPS(fps),
		tea.WithColorProfile(o.profile()), tea.WithInput(o.Input), tea.WithOutput(o.Output), tea.WithEnvironment(o.Env),
	}
}

// profile is what the terminal can show of the colours that were decided on.
func (o *Options) profile() colorprofile.Profile {
	if o.Look.Color != FullColor {
		return colorprofile.ASCII
	}
	return max(colorprofile.Env(o.Env), colorprofile.ANSI)
}
