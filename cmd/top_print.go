package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/tui"
)

// topPrinter prints snapshots where there is no screen.
type topPrinter struct {
	printer cli.Printer
	server  string
	from    string // what the snapshots are of, of the Source… constants
	hint    string // what to do where nobody answers; "" = the usual
	once    bool

	err  error                 // of writing
	down *explain.FleetVerdict // of the last one, when nobody answered
	why  error                 // of that, when it is known
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
		if p.down, p.why = nil, u.Err; snapshot == nil {
			snapshot = unreachable(p.server, p.from, u.Err, p.printer.Streams.Now())
		}
		if snapshot.Verdict.Code == explain.VerdictUnreachable {
			p.down = &snapshot.Verdict
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
		code, hint := p.wayOn()
		return cli.WithHint(fmt.Errorf("%s: %s", p.down.Message, strings.Join(p.down.Evidence, "; ")), code, hint)
	}
	return nil
}

// wayOn says what to do where nobody answers, or not what was asked, and the exit
// status.
func (p *topPrinter) wayOn() (code int, hint string) {
	_, onTheWay := errors.AsType[*kube.StepError](p.why)
	_, refused := errors.AsType[*admin.RequestError](p.why)
	if e, ok := errors.AsType[*cli.Error](clientError(p.why)); ok && (onTheWay || refused) {
		return e.Code, e.Hint
	}
	if page, ok := errors.AsType[pageDown](p.why); ok {
		return cli.ExitUnreachable, page.err.Hint()
	}
	if p.from == explain.SourceMetrics {
		return cli.ExitUnreachable, "is it running, and are these the addresses of its metrics? In a cluster: kubectl port-forward"
	}
	if p.hint != "" {
		return cli.ExitUnreachable, p.hint
	}
	return cli.ExitUnreachable, "start one with 'eppctl serve', give its address with --server, or look around with 'eppctl top --demo'"
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
	p.verdict(s, "")
	if len(s.Pods) == 0 {
		return nil
	}
	table := p.printer.Table(podColumns()...)
	for i := range s.Pods {
		table.Row(podTexts(&s.Pods[i], s.FromOutside())...)
	}
	return table.Flush()
}

// verdict prints what stands out, of a replica when it has a name.
func (p *topPrinter) verdict(s *explain.Snapshot, replica string) {
	if p.printer.NoHeaders {
		return
	}
	streams, tone := p.printer.Streams, cli.Plain
	if s.Verdict.Code != explain.VerdictOK {
		tone = cli.Warn
	}
	if replica != "" {
		replica += "  "
	}
	said := append([]string{s.Verdict.Code + ": " + s.Verdict.Message}, s.Verdict.Evidence...)
	text := streams.Time(s.Time) + "  " + replica + strings.Join(said, "; ")
	fmt.Fprintln(streams.Out, streams.Paint(tone, cli.Sanitize(text)))
	if silence := s.Router.Silence; silence != nil {
		fmt.Fprintln(streams.Out, streams.Paint(cli.Warn, cli.Sanitize(streams.Time(s.Time)+"  "+replica+silence.Text(s.Time))))
	}
}

// podColumns are those of [podTexts].
func podColumns() []cli.Column {
	return []cli.Column{
		{Name: "POD", Min: 8},
		{Name: "STATE"},
		{Name: "PICKS", Right: true},
		{Name: "BLOCKS", Right: true, Priority: 3},
		{Name: "HITS", Right: true, Priority: 3},
		{Name: "WAITING", Right: true},
		{Name: "PENDING", Right: true, Priority: 2},
		{Name: "INFLIGHT", Right: true, Priority: 4},
		{Name: "LOAD", Right: true, Priority: 1},
		{Name: "HEALTH", Right: true, Priority: 1},
		{Name: "LORA", Right: true, Priority: 5},
		{Name: "AGE", Right: true, Priority: 2},
		{Name: "ENDPOINT", Wide: true},
		{Name: "EVENTS", Right: true, Wide: true},
		{Name: "TTFT95", Right: true, Wide: true},
		{Name: "RUNNING", Right: true, Wide: true},
		{Name: "KV", Right: true, Wide: true},
		{Name: "WHY", Wide: true},
	}
}

// podTexts are the cells of a pod. From outside what only the picker knows is not
// known.
func podTexts(d *explain.PodSnapshot, outside bool) []string {
	pending, inFlight := fmt.Sprint(d.Queue.Pending), fmt.Sprint(d.Queue.InFlight)
	if n := d.Queue.PeerPending; n > 0 {
		pending += fmt.Sprintf("+%d", n) // of other replicas
	}
	if outside {
		pending, inFlight = cli.Unknown, cli.Unknown
	}
	lora, events := known(d.Adapters.Max, "%d"), cli.Unknown
	if d.Adapters.Loaded != nil {
		lora = fmt.Sprint(len(d.Adapters.Loaded)) + "/" + lora
	}
	if d.Stream != nil {
		events = fmt.Sprintf("%.1f/s", d.Stream.EventsPerSecond)
	}
	return []string{
		d.Pod, d.State, percent(d.PicksShare), known(d.CachedBlocks, "%d"), percent(d.CacheHitRatio), known(d.Queue.Waiting, "%g"),
		pending, inFlight, percent(d.Load), known(d.Health, "%.2f"), lora, known(d.AgeSeconds, "%.1fs"),
		orNone(d.Endpoint), events, seconds(d.TTFTP95), known(d.Running, "%g"), percent(d.KVUsage), orNone(d.Reason),
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
