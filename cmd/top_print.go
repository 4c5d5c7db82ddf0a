package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/tui"
)

// topPrinter prints snapshots where there is no screen.
type topPrinter struct {
	printer cli.Printer
	server  string
	once    bool

	err  error // of writing
	down error // why the last one is of nobody
}

// errPrinted ends the following after one snapshot.
var errPrinted = errors.New("printed")

// follow prints one snapshot, or one at each interval. A picker that does not answer
// is printed too; when it is the only one, that is the exit status.
func (p *topPrinter) follow(ctx context.Context, src tui.Source, interval time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := src.Follow(ctx, tui.NewPace(interval), func(u tui.Update) {
		if p.err != nil || context.Cause(ctx) != nil {
			return
		}
		snapshot := u.Snapshot
		if p.down = u.Err; snapshot == nil {
			snapshot = unreachable(p.server, u.Err, p.printer.Streams.Now())
		}
		if p.err = p.print(snapshot); p.err != nil || p.once {
			cancel(errPrinted)
		}
	})
	switch {
	case p.err != nil:
		return p.err
	case !errors.Is(err, errPrinted):
		return err
	case p.down != nil:
		return cli.WithHint(fmt.Errorf("no answer from the picker at %s: %w", p.server, p.down), cli.ExitUnreachable,
			"start one with 'eppctl serve', give its address with --server, or look around with 'eppctl top --demo'")
	}
	return nil
}

func (p *topPrinter) print(s *explain.Snapshot) error {
	switch p.printer.Format {
	case cli.FormatJSON, cli.FormatYAML:
		return p.printer.Document(s)
	case cli.FormatJSONL:
		return p.printer.Line(s)
	default:
		return p.pods(s)
	}
}

// pods prints the verdict and the table.
func (p *topPrinter) pods(s *explain.Snapshot) error {
	streams := p.printer.Streams
	tone := cli.Plain
	if s.Verdict.Code != explain.VerdictOK {
		tone = cli.Warn
	}
	if !p.printer.NoHeaders {
		said := append([]string{s.Verdict.Code + ": " + s.Verdict.Message}, s.Verdict.Evidence...)
		text := streams.Time(s.Time) + "  " + strings.Join(said, "; ")
		fmt.Fprintln(streams.Out, streams.Paint(tone, cli.Sanitize(text)))
	}
	if len(s.Pods) == 0 {
		return nil
	}
	table := p.printer.Table(
		cli.Column{Name: "POD", Min: 8},
		cli.Column{Name: "STATE"},
		cli.Column{Name: "PICKS", Right: true},
		cli.Column{Name: "BLOCKS", Right: true, Priority: 3},
		cli.Column{Name: "HITS", Right: true, Priority: 3},
		cli.Column{Name: "WAITING", Right: true},
		cli.Column{Name: "PENDING", Right: true, Priority: 2},
		cli.Column{Name: "INFLIGHT", Right: true, Priority: 4},
		cli.Column{Name: "LOAD", Right: true, Priority: 1},
		cli.Column{Name: "HEALTH", Right: true, Priority: 1},
		cli.Column{Name: "LORA", Right: true, Priority: 5},
		cli.Column{Name: "AGE", Right: true, Priority: 2},
		cli.Column{Name: "ENDPOINT", Wide: true},
		cli.Column{Name: "EVENTS", Right: true, Wide: true},
		cli.Column{Name: "TTFT95", Right: true, Wide: true},
		cli.Column{Name: "RUNNING", Right: true, Wide: true},
		cli.Column{Name: "KV", Right: true, Wide: true},
		cli.Column{Name: "WHY", Wide: true},
	)
	for i := range s.Pods {
		table.Row(podTexts(&s.Pods[i])...)
	}
	return table.Flush()
}

// podTexts are the cells of a pod.
func podTexts(d *explain.PodSnapshot) []string {
	lora, events := known(d.Adapters.Max, "%d"), cli.Unknown
	if d.Adapters.Loaded != nil {
		lora = fmt.Sprint(len(d.Adapters.Loaded)) + "/" + lora
	}
	if d.Stream != nil {
		events = fmt.Sprintf("%.1f/s", d.Stream.EventsPerSecond)
	}
	return []string{
		d.Pod, d.State, percent(d.PicksShare), known(d.CachedBlocks, "%d"), percent(d.CacheHitRatio), known(d.Queue.Waiting, "%g"),
		fmt.Sprint(d.Queue.Pending), fmt.Sprint(d.Queue.InFlight), percent(d.Load), known(d.Health, "%.2f"), lora, known(d.AgeSeconds, "%.1fs"),
		d.Endpoint, events, seconds(d.TTFTP95), known(d.Running, "%g"), percent(d.KVUsage), orNone(d.Reason),
	}
}

// known is a value, or [cli.Unknown].
func known[T any](v *T, format string) string {
	if v == nil {
		return cli.Unknown
	}
	return fmt.Sprintf(format, *v)
}

func percent(v *float64) string {
	if v == nil {
		return cli.Unknown
	}
	return fmt.Sprintf("%.0f%%", 100**v)
}
