package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"
)

// BlockTokens is how many tokens a hash id of a trace stands for (Mooncake's
// format).
const BlockTokens = 512

// maxTraceLine bounds a line of a trace, and maxInput a request's tokens.
const (
	maxTraceLine = 1 << 20
	maxInput     = 1 << 20
)

// A Line is one request of a trace in Mooncake's format.
type Line struct {
	Timestamp    float64  `json:"timestamp"` // milliseconds from the start
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

// Arrival is one request of the traffic.
type Arrival struct {
	At   time.Duration // after the start, by the picker's clock
	Path string
	Body []byte
	// conversation is the one whose next turn this is; nil in a trace.
	conversation *conversation
}

// Trace reads the requests of a trace file, in order of their lines. rate is a
// factor on the rate of arrivals: 2 halves the times between them.
type Trace struct {
	file  *os.File
	lines *bufio.Scanner
	name  string
	line  int
	rate  float64
	model string
	first *Line // read when the file was opened, to know that it is a trace
}

// Bounds of the factor on a trace's rate of arrivals: below the first, the times
// of a trace of 25 days (the largest timestamp) would run into centuries and overflow.
const (
	minRate = 1e-3
	maxRate = 1e6
)

// RateError says that --sim-load-rate is beyond its bounds.
type RateError struct{ Rate float64 }

// Error implements error.
func (e *RateError) Error() string {
	return fmt.Sprintf("--sim-load-rate: must be between %v and %.0f, got %v", minRate, maxRate, e.Rate)
}

// OpenTrace opens a trace file. A rate that is out of bounds is a [*RateError].
func OpenTrace(path string, rate float64) (*Trace, error) {
	if !(rate >= minRate && rate <= maxRate) {
		return nil, &RateError{rate}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t := &Trace{file: f, name: path, rate: rate, lines: bufio.NewScanner(f)}
	t.lines.Buffer(nil, maxTraceLine)
	if t.first, err = t.read(); err != nil {
		_ = f.Close() // the first error says more
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%s: no request in it", path)
		}
		return nil, err
	}
	return t, nil
}

// Close closes the file.
func (t *Trace) Close() error { return t.file.Close() }

// Next returns the next request; io.EOF at the end. Other errors name the line.
func (t *Trace) Next() (*Arrival, error) {
	l := t.first
	if t.first = nil; l == nil {
		var err error
		if l, err = t.read(); err != nil {
			return nil, err
		}
	}
	return &Arrival{
		At:   time.Duration(l.Timestamp / t.rate * float64(time.Millisecond)),
		Path: "/v1/completions", Body: l.body(t.model),
	}, nil
}

func (t *Trace) read() (*Line, error) {
	for t.lines.Scan() {
		t.line++
		line := bytes.TrimSpace(t.lines.Bytes())
		if len(line) == 0 {
			continue
		}
		l, err := ParseLine(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", t.name, t.line, err)
		}
		return l, nil
	}
	if err := t.lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", t.name, t.line+1, err)
	}
	return nil, io.EOF
}

// ParseLine reads a line. Errors name the field.
func ParseLine(b []byte) (*Line, error) {
	l := &Line{Timestamp: math.NaN()} // which JSON does not have
	if err := json.Unmarshal(b, l); err != nil {
		return nil, err
	}
	switch {
	case math.IsNaN(l.Timestamp):
		return nil, errors.New("timestamp: missing")
	case !(l.Timestamp >= 0 && l.Timestamp <= math.MaxInt32):
		return nil, fmt.Errorf("timestamp: must be milliseconds from the start, got %v", l.Timestamp)
	case l.InputLength < 1 || l.InputLength > maxInput:
		return nil, fmt.Errorf("input_length: must be between 1 and %d, got %d", maxInput, l.InputLength)
	case l.OutputLength < 1 || l.OutputLength > maxInput:
		return nil, fmt.Errorf("output_length: must be between 1 and %d, got %d", maxInput, l.OutputLength)
	case len(l.HashIDs)*BlockTokens < l.InputLength:
		return nil, errors.New("hash_ids: fewer than the input has blocks of 512 tokens")
	}
	return l, nil
}

// body is the request: every hash id stands for the same 512 token ids wherever
// it occurs, and the last may be cut.
func (l *Line) body(model string) []byte {
	name, _ := json.Marshal(model) // a string never fails
	b := make([]byte, 0, 64+len(name)+7*l.InputLength)
	b = append(b, `{"model":`...)
	b = append(b, name...)
	b = append(b, `,"max_tokens":`...)
	b = strconv.AppendInt(b, int64(l.OutputLength), 10)
	b = append(b, `,"prompt":[`...)
	for i := range l.InputLength {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(Token(l.HashIDs[i/BlockTokens], i%BlockTokens)), 10)
	}
	return append(b, "]}"...)
}

// vocabulary is the number of different token ids that are made (Llama 3 has
// 128,256; the last 256 are special).
const vocabulary = 128_000

// Token is the i-th token id of a hash id's block: splitmix64 of both.
func Token(hash uint64, i int) uint32 {
	z := hash*BlockTokens + uint64(i) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return uint32((z ^ z>>31) % vocabulary)
}
