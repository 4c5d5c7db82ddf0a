package admin

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
)

const (
	// writeTimeout is how long a client may take to read the next piece of a list.
	writeTimeout = 30 * time.Second
	// pieces is how many records are written between two looks at the clock.
	pieces = 16
)

func (s *server) decisions(w http.ResponseWriter, r *http.Request) error {
	q, err := parseList(r.URL.RawQuery, s.Clock.Now())
	if err != nil {
		return err
	}
	if accepts(r, "application/jsonl") && !strings.Contains(r.URL.RawQuery, "format=") {
		q.lines = true
	}
	out := newStream(w)
	if q.lines {
		return s.lines(w, r, &q, out)
	}
	return s.list(w, r, &q, out)
}

func accepts(r *http.Request, mediaType string) bool {
	for _, field := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(field, ",") {
			if name, _, _ := strings.Cut(part, ";"); strings.EqualFold(strings.TrimSpace(name), mediaType) {
				return true
			}
		}
	}
	return false
}

// stream writes a list piece by piece: a ring of large decisions, rendered, is
// many times its size. After an error it does nothing.
type stream struct {
	w       *bufio.Writer
	out     *begun
	control *http.ResponseController
	written int // records
	err     error
}

func newStream(w http.ResponseWriter) *stream {
	out := &begun{w: w}
	return &stream{w: bufio.NewWriterSize(out, 64<<10), out: out, control: http.NewResponseController(w)}
}

// begun notes that something has been written.
type begun struct {
	w   io.Writer
	yes bool
}

// Write implements [io.Writer].
func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.w.Write(p)
}

func (s *stream) text(text string) {
	if s.err == nil {
		_, s.err = s.w.WriteString(text)
	}
}

// value writes v as JSON without a newline behind it.
func (s *stream) value(v any) {
	if s.err != nil {
		return
	}
	enc := json.NewEncoder(trimmed{s.w})
	enc.SetEscapeHTML(false)
	s.err = enc.Encode(v)
}

// trimmed leaves out the newline that a json.Encoder puts behind a value, which
// it writes in one piece.
type trimmed struct{ w io.Writer }

// Write implements [io.Writer].
func (t trimmed) Write(p []byte) (int, error) {
	n := len(p)
	_, err := t.w.Write(p[:n-1])
	return n, err
}

// record writes one record, and gives the client time for more now and then.
func (s *stream) record(rec *explain.Record) {
	if s.written%pieces == 0 {
		allow(s.control, writeTimeout)
	}
	s.value(rec)
	s.written++
}

// lines answers with one record a line, all that match.
func (s *server) lines(w http.ResponseWriter, r *http.Request, q *listQuery, out *stream) error {
	w.Header().Set("Content-Type", "application/jsonl")
	if r.Method == http.MethodHead {
		return nil
	}
	err := s.Decisions.Walk(r.Context(), q.Query, func(rec *explain.Record) bool {
		out.record(rec)
		out.text("\n")
		return out.err == nil && (q.Limit == 0 || out.written < q.Limit)
	})
	return out.end(err)
}

// list answers with one document of at most q.Limit records.
func (s *server) list(w http.ResponseWriter, r *http.Request, q *listQuery, out *stream) error {
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	coverage, err := s.Decisions.Coverage()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodHead {
		return nil
	}
	out.text(fmt.Sprintf(`{"apiVersion":%q,"kind":"DecisionList","coverage":`, APIVersion))
	out.value(coverageOf(&coverage))
	out.text(`,"items":[`)
	more := false
	err = s.Decisions.Walk(r.Context(), q.Query, func(rec *explain.Record) bool {
		if more = out.written == q.Limit; more {
			return false
		}
		if out.written > 0 {
			out.text(",\n")
		}
		out.record(rec)
		return out.err == nil
	})
	out.text(fmt.Sprintf(`],"more":%t}`+"\n", more))
	return out.end(err)
}

// end sends what is left of a list that err, if not nil, has cut short. When a
// part of it is on its way, only breaking the connection tells the client.
func (s *stream) end(err error) error {
	if err != nil && !s.out.yes {
		return err
	}
	if err != nil || s.err != nil || s.w.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// allow gives the client time from now to read what is written next. Not every
// ResponseWriter can do that; the server's own timeout holds then.
func allow(control *http.ResponseController, d time.Duration) {
	_ = control.SetWriteDeadline(clock.Wall{}.Now().Add(d))
}
