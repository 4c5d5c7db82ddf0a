package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/eppctl/eppctl/explain"
)

// MaxLine is the longest line that is read: four times a record of 4,096 pods.
const MaxLine = 16 << 20

// Encode writes the record as one line of JSON, in a single call of Write.
func Encode(w io.Writer, rec *explain.Record) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(rec); err != nil {
		return fmt.Errorf("encode decision %s: %w", rec.DecisionID, err)
	}
	return nil
}

// ErrTorn is the reason of a [LineError] for a last line that was cut off, as a
// crash leaves it. What stands before it is whole.
var ErrTorn = errors.New("the line is cut off, as after a crash: all decisions before it were read")

// errLong is the reason of a [LineError] for a line beyond [MaxLine].
var errLong = errors.New("longer than 16 MiB, the most that is read of a line")

// LineError says which line of the input is not a decision, and why.
type LineError struct {
	Line int // counted from 1
	Err  error
}

// Error implements error.
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// Reader reads decisions from JSON Lines, one a line. Blank lines are skipped and
// unknown fields ignored, so that a later version can add some.
type Reader struct {
	in   *bufio.Reader
	line int
	at   int64 // of what is read next
	buf  []byte
}

// Line is one line of a text, without a promise of what it holds. Text is valid
// until the next one is read.
type Line struct {
	Text   []byte // with its newline
	Number int    // counted from 1
	Offset int64  // of its first byte
	Whole  bool   // a newline ends it
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next decision, or [io.EOF] at the end. After a [*LineError]
// the reader stands behind the bad line and may be used on; other errors are
// the input's own.
func (r *Reader) Next() (*explain.Record, error) {
	for {
		line, err := r.Line()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line.Text)) == 0 {
			continue
		}
		return Decode(line)
	}
}

// Decode reads the decision of one line. Its error is a [*LineError].
func Decode(line Line) (*explain.Record, error) {
	rec, err := decode(line.Text)
	switch {
	case err == nil:
		return rec, nil
	case !line.Whole && cutOff(line.Text):
		err = ErrTorn
	}
	return nil, &LineError{line.Number, err}
}

// Line returns the next line, whatever it holds, or [io.EOF]. A line longer than
// [MaxLine] is a [*LineError], and never in memory as a whole.
func (r *Reader) Line() (Line, error) {
	r.buf = r.buf[:0]
	long, start := false, r.at
	for {
		part, err := r.in.ReadSlice('\n')
		r.at += int64(len(part))
		if long = long || len(r.buf)+len(part) > MaxLine; !long {
			r.buf = append(r.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return Line{}, fmt.Errorf("read line %d: %w", r.line+1, err)
		case err != nil && len(r.buf) == 0 && !long:
			return Line{}, io.EOF
		}
		r.line++
		out := Line{Number: r.line, Offset: start, Whole: err == nil}
		if long {
			r.buf = nil
			return out, &LineError{r.line, errLong}
		}
		out.Text = r.buf
		return out, nil
	}
}

// cutOff reports whether the line is the beginning of JSON and not something else.
func cutOff(line []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(line))
	for {
		switch _, err := dec.Token(); {
		case err == nil:
		case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
			return true
		default:
			return false
		}
	}
}

// decode reads one line. Its errors name the place in it.
func decode(line []byte) (*explain.Record, error) {
	rec := new(explain.Record)
	if err := json.Unmarshal(line, rec); err != nil {
		return nil, placed(err)
	}
	return rec, Check(rec)
}

func placed(err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("column %d: not JSON: %w", syntax.Offset, err)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Errorf("column %d: %s: must be %s, got a JSON %s", wrong.Offset, wrong.Field, jsonName(wrong), wrong.Value)
	}
	return fmt.Errorf("not a decision: %w", err)
}

func jsonName(e *json.UnmarshalTypeError) string {
	switch name := e.Type.String(); name {
	case "string", "bool":
		return "a " + name
	case "float64", "int", "uint64":
		return "a number (" + name + ")"
	default:
		return "an object or a list"
	}
}

// Check refuses what is not a decision, or can't be one, as readers do.
func Check(rec *explain.Record) error {
	switch {
	case rec.APIVersion == "" || rec.Kind == "":
		return errors.New(`no "apiVersion" and "kind": not a decision; write one a line with 'eppctl decisions -o jsonl'`)
	case rec.APIVersion != explain.APIVersion:
		return fmt.Errorf("apiVersion: must be %q, got %q: use an eppctl of the version that wrote it", explain.APIVersion, clip(rec.APIVersion, 64))
	case rec.Kind != explain.KindDecision:
		return fmt.Errorf("kind: must be %q, got %q: write decisions with 'eppctl decisions -o jsonl'", explain.KindDecision, clip(rec.Kind, 64))
	case rec.Result.Pod == "" && rec.Result.Refused == "":
		return errors.New("result: names neither a pod nor why the request was refused")
	case rec.Result.Index < -1 || rec.Result.Index >= len(rec.Candidates):
		return fmt.Errorf("result.index: %d is none of the %d candidates", rec.Result.Index, len(rec.Candidates))
	}
	for i, pod := range rec.Result.Order {
		if pod < 0 || pod >= len(rec.Candidates) {
			return fmt.Errorf("result.order[%d]: %d is none of the %d candidates", i, pod, len(rec.Candidates))
		}
	}
	return nil
}
