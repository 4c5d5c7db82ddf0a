package cli

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/eppctl/eppctl/internal/clock"
)

// ForceTTYEnv is the variable that makes standard output count as a terminal
// of the given size ("80x24"), so that scripts and tests can see what a person
// would.
const ForceTTYEnv = "EPPCTL_FORCE_TTY"

// The size of a terminal that does not tell its own.
const (
	defaultWidth  = 80
	defaultHeight = 24
	maxDimension  = 10_000
)

// Streams is a command's whole view of the process it runs in.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	// InIsTerminal, OutIsTerminal and ErrIsTerminal say whether a person is at
	// the other end.
	InIsTerminal  bool
	OutIsTerminal bool
	ErrIsTerminal bool

	// Width and Height are the terminal's size in cells. They mean nothing
	// unless OutIsTerminal.
	Width  int
	Height int

	// Color is what --color says; the zero value asks the environment.
	Color ColorMode

	// Env looks an environment variable up; "" when it is not set.
	Env func(name string) string
	// Now is the wall clock, for relative times.
	Now func() time.Time
}

// System is the running process: its three standard streams, its environment
// and its clock. [ForceTTYEnv] is honoured here.
func System() *Streams {
	s := &Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InIsTerminal:  term.IsTerminal(os.Stdin.Fd()),
		OutIsTerminal: term.IsTerminal(os.Stdout.Fd()),
		ErrIsTerminal: term.IsTerminal(os.Stderr.Fd()),
		Env:           os.Getenv,
		Now:           clock.Wall{}.Now,
	}
	if s.OutIsTerminal {
		// An error leaves zeros, which the next lines replace: a serial console
		// and some containers report 0x0.
		s.Width, s.Height, _ = term.GetSize(os.Stdout.Fd())
		if s.Width <= 0 || s.Height <= 0 {
			s.Width, s.Height = defaultWidth, defaultHeight
		}
	}
	s.forceTTY(s.Env(ForceTTYEnv))
	return s
}

// Test gives streams over buffers: no terminal, no input, an empty environment
// and a clock that stands at 2026-01-02 15:04:05 UTC.
func Test() (s *Streams, out, errOut *bytes.Buffer) {
	out, errOut = new(bytes.Buffer), new(bytes.Buffer)
	s = &Streams{
		In: strings.NewReader(""), Out: out, Err: errOut,
		Env: func(string) string { return "" },
		Now: func() time.Time { return time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC) },
	}
	return s, out, errOut
}

// forceTTY makes s a terminal of the size that spec names ("120x40", "120"),
// of the default size when spec names none, and does nothing for "" and "0".
func (s *Streams) forceTTY(spec string) {
	if spec == "" || spec == "0" {
		return
	}
	s.OutIsTerminal, s.ErrIsTerminal = true, true
	s.Width, s.Height = defaultWidth, defaultHeight
	width, height, _ := strings.Cut(spec, "x")
	if n, ok := dimension(width); ok {
		s.Width = n
	}
	if n, ok := dimension(height); ok {
		s.Height = n
	}
}

// dimension reads a size in cells; "1", as in EPPCTL_FORCE_TTY=1, is no size.
func dimension(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 1 && n <= maxDimension
}

// Time is t as this output shows it: "12s ago" on a terminal, RFC 3339 in UTC
// with milliseconds elsewhere, [Unknown] when t is zero.
func (s *Streams) Time(t time.Time) string {
	switch {
	case t.IsZero():
		return Unknown
	case !s.OutIsTerminal:
		return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	default:
		age := s.Now().Sub(t)
		if age < 0 {
			return "in " + Age(-age)
		}
		return Age(age) + " ago"
	}
}

// Age is a duration in the fewest characters that a person needs, as kubectl
// writes it: tenths below ten seconds, then "42s", "7m", "3h", "12d".
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + Age(-d)
	case d < 100*time.Millisecond:
		return "0s"
	case d < 10*time.Second:
		return strconv.FormatFloat(float64(d.Truncate(100*time.Millisecond))/float64(time.Second), 'f', -1, 64) + "s"
	case d < 2*time.Minute:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	case d < 2*time.Hour:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	case d < 2*day:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	default:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
}

// outputClosed reports whether err says that the reader of our standard output
// or error went away, as `head` does. A broken connection to a server is
// another thing and no *fs.PathError.
func outputClosed(err error) bool {
	p, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(p.Err, syscall.EPIPE) {
		return false
	}
	return p.Path == os.Stdout.Name() || p.Path == os.Stderr.Name()
}
