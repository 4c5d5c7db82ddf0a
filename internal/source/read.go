package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/llmdlog"
	"github.com/eppctl/eppctl/internal/record"
)

// reading is one text, or several that follow each other as a rotated log's files
// do, read from beginning to end.
type reading struct {
	opts *Options
	name string // of the source
	q    record.Query
	emit func(*explain.Record) error // takes decisions that may be wanted

	past record.Past
	ours pickLog
	llmd *llmdlog.Parser
	kept *kept // takes the decisions of what can't be read again

	unread int // lines of llm-d's log

	live     bool // the text is being written: what is wrong is told when it is found
	known    bool // some line was one that is known
	stranger error
}

func newReading(opts *Options, name string, q record.Query, emit func(*explain.Record) error) *reading {
	return &reading{opts: opts, name: name, q: q, emit: emit, ours: pickLog{id: q.ID}, llmd: llmdlog.New(llmdlog.Options{Weights: opts.Weights})}
}

// skips are the lines of one text that were not what they should be.
type skips struct {
	known   int // lines that are
	log     bool
	damaged int
	other   int
	first   error       // of the damaged ones, else of the others
	tell    func(error) // takes the first damaged one at once; nil: they are told at the end
}

func (s *skips) damage(err error) {
	if s.damaged++; s.damaged > 1 {
		return
	}
	if s.first = err; s.tell != nil {
		s.tell(err)
	}
}

func (s *skips) stranger(err error) {
	if s.other++; s.first == nil {
		s.first = err
	}
}

// text reads one text to its end.
func (r *reading) text(ctx context.Context, name string, in io.Reader) error {
	var s skips
	if r.live {
		s.tell = func(err error) { r.opts.warn("%s: %v; it is left out, as others will be", name, err) }
	}
	unpacked, err := Decompress(interruptible{ctx, in})
	if err != nil {
		s.damage(err)
		r.conclude(name, &s)
		return context.Cause(ctx)
	}
	defer unpacked.Close()
	var parts joiner
	for lines := record.NewReader(unpacked); ; {
		line, err := lines.Line()
		_, long := errors.AsType[*record.LineError](err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !long:
			if !errors.Is(err, io.EOF) {
				s.damage(err) // what stands before it has been read
			}
			r.conclude(name, &s)
			return nil
		case err == nil:
			if line.Number == 1 {
				line.Text = bytes.TrimPrefix(line.Text, byteOrderMark)
			}
			if line.Text, err = parts.join(line.Text); err != nil {
				err = &record.LineError{Line: line.Number, Err: err}
			}
		}
		if err != nil {
			s.damage(err)
			continue
		}
		if err := r.line(line, &s); err != nil {
			return err
		}
	}
}

// byteOrderMark is what some editors begin a text with.
var byteOrderMark = []byte("\ufeff")

// interruptible reads until its context ends, also within a line that never does.
type interruptible struct {
	ctx context.Context //nolint:containedctx // lives as long as the reading
	in  io.Reader
}

// Read implements [io.Reader].
func (r interruptible) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.in.Read(p)
}

// line takes one line for what it is. Its error is that of emit.
func (r *reading) line(line record.Line, s *skips) error {
	text := body(line.Text)
	switch {
	case len(bytes.TrimSpace(line.Text)) == 0:
		return nil
	case bytes.HasPrefix(text, []byte(`{"apiVersion"`)) || bytes.HasPrefix(text, []byte(`{ "apiVersion"`)):
		line.Text = text
		return r.decision(line, s)
	case r.ours.looks(text):
		s.known, s.log = s.known+1, true
		done, err := r.ours.line(text)
		if err != nil {
			s.damage(&record.LineError{Line: line.Number, Err: err})
		}
		return r.fromLog(done)
	case llmdlog.Looks(line.Text):
		s.known, s.log = s.known+1, true
		if !r.llmd.Line(bytes.TrimRight(line.Text, "\r\n")) {
			r.unread++
			s.damage(&record.LineError{Line: line.Number, Err: errUnread})
		}
		return r.fromLog(r.llmd.Take())
	}
	s.stranger(&record.LineError{Line: line.Number, Err: stranger(line)})
	return nil
}

var errUnread = errors.New("a line of the picker's log that can't be read: cut off perhaps, or longer than 8 MiB")

// stranger says why a line is none that is known.
func stranger(line record.Line) error {
	if bytes.HasPrefix(line.Text, []byte{0xff, 0xfe}) || bytes.HasPrefix(line.Text, []byte{0xfe, 0xff}) {
		return errors.New("UTF-16: make it UTF-8 first, for example with 'iconv -f UTF-16 -t UTF-8'")
	}
	if bytes.IndexByte(line.Text, 0) >= 0 {
		return errors.New("binary: neither decisions as JSON Lines nor a log")
	}
	if _, err := record.Decode(line); err != nil && bytes.HasPrefix(bytes.TrimSpace(line.Text), []byte("{")) {
		return errors.Unwrap(err)
	}
	return errors.New("neither a decision nor a line of a log that is known: eppctl's own, or that of llm-d's picker")
}

func (r *reading) decision(line record.Line, s *skips) error {
	if line.Whole {
		if may, arrival := r.q.MayWant(line.Text); !may && !arrival.IsZero() {
			s.known++
			r.past.Passed(1, arrival, arrival)
			return r.kept.line(line.Text)
		}
	}
	rec, err := record.Decode(line)
	if err != nil {
		s.damage(err)
		return nil
	}
	s.known++
	r.past.Passed(1, rec.Time, rec.Time)
	return cmp.Or(r.kept.line(line.Text), r.emit(rec))
}

func (r *reading) fromLog(done []*explain.Record) error {
	for _, rec := range done {
		r.past.Passed(1, rec.Time, rec.Time)
		if err := cmp.Or(r.kept.record(rec), r.emit(rec)); err != nil {
			return err
		}
	}
	return nil
}

// conclude says what was skipped of a text. In a log lines of others are to be
// expected. A text without a line that is known is an error, unless there are
// other texts.
func (r *reading) conclude(name string, s *skips) {
	if s.first == nil {
		return
	}
	first := fmt.Errorf("%s: %w", name, s.first)
	if s.known == 0 {
		if r.stranger == nil {
			r.stranger = first
		} else {
			r.opts.warn("skipped: %v", first)
		}
		return
	}
	r.known = true
	skipped := s.damaged + s.other
	if s.log {
		skipped = s.damaged
	}
	switch {
	case s.tell != nil && s.damaged > 0:
	case skipped == 1:
		r.opts.warn("%v", first)
	case skipped > 1:
		r.opts.warn("%s: %d lines skipped, the first is %v", name, skipped, s.first)
	}
}

// close ends the last log.
func (r *reading) close() error {
	if err := r.fromLog(r.llmd.Close()); err != nil {
		return err
	}
	stats := r.llmd.Stats()
	if n := stats.Malformed - r.unread; n > 0 {
		r.opts.warn("%s: decisions were left out, since they hold what no record can: %d", r.name, n)
	}
	if stats.Torn > 0 {
		r.opts.warn("%s: decisions were left out, since lines of them are missing: %d", r.name, stats.Torn)
	}
	if stats.Disordered() {
		r.opts.warn("%s: the lines of the log are not in the order of time, oldest first: sort them", r.name)
	}
	return r.fromLog(r.ours.close())
}

// level says what a log without decisions was written at; nil when that is no
// reason.
func (r *reading) level() error {
	if e := r.ours.level(r.name); e != nil {
		return e
	}
	stats := r.llmd.Stats()
	if stats.Records > 0 || stats.Lines == 0 || stats.Level == 0 || stats.Level >= neededVerbosity {
		return nil
	}
	return &LevelError{
		Name: r.name, Level: fmt.Sprintf("-v=%d", stats.Level), Needed: fmt.Sprintf("-v=%d", neededVerbosity),
		How: llmdlog.HowToSet,
	}
}

// neededVerbosity is the -v of llm-d's picker that logs scores.
const neededVerbosity = 4

// why says why a request has no pick in a log; of one without a trace there, untraced
// says how that may be.
func (r *reading) why(id string) (why, untraced string) {
	if r.ours.trace != "" {
		return r.ours.trace + ", but what that was decided from is logged at level debug only", ""
	}
	if r.llmd.Stats().Lines == 0 {
		return "", ""
	}
	reason, known := r.llmd.Absent(id)
	if known {
		return reason, ""
	}
	return "", reason
}
