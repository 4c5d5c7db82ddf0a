package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/internal/body"
	"github.com/eppctl/eppctl/internal/request"
)

// payload is a request body in memory, from the client's first byte until the
// pod has all of it. Releasing may race with reading, and happens once.
type payload struct {
	bytes  atomic.Pointer[[]byte]
	held   atomic.Int64
	budget *body.Budget
}

func (p *payload) release() {
	p.bytes.Store(nil)
	p.budget.Give(p.held.Swap(0))
}

// get is nil after the release.
func (p *payload) get() []byte {
	if b := p.bytes.Load(); b != nil {
		return *b
	}
	return nil
}

// bodyReader reads a payload. It keeps no reference to the bytes: net/http holds
// a request, its body included, as long as the answer lasts.
type bodyReader struct {
	payload *payload
	offset  int
}

// Read implements [io.Reader].
func (b *bodyReader) Read(p []byte) (int, error) {
	all := b.payload.get()
	if b.offset >= len(all) {
		return 0, io.EOF
	}
	n := copy(p, all[b.offset:])
	b.offset += n
	return n, nil
}

// Close implements [io.Closer].
func (b *bodyReader) Close() error { return nil }

// firstPiece is how much memory a body gets before any of it has come: what a
// client announces is not yet there.
const firstPiece = 32 << 10

// read takes the body in, within the limits of size, time and memory. What it
// returns must be released, also after an error.
func (g *Gateway) read(w http.ResponseWriter, r *http.Request) (*payload, error) {
	p := &payload{budget: g.bodies}
	if r.Body == nil || r.Body == http.NoBody {
		return p, nil
	}
	control := http.NewResponseController(w)
	if r.ContentLength > g.cfg.MaxBody {
		abandonBody(w, control)
		return p, tooLarge(g.cfg.MaxBody)
	}
	// Not every ResponseWriter has deadlines; the server's has.
	_ = control.SetReadDeadline(in(g.cfg.BodyTimeout))
	err := p.fill(http.MaxBytesReader(w, r.Body, g.cfg.MaxBody), r.ContentLength, g.cfg.MaxBody)
	if err != nil {
		abandonBody(w, control)
		return p, g.unread(err)
	}
	// A deadline would also end the connection's watch for the client's hanging up.
	_ = control.SetReadDeadline(time.Time{})
	return p, nil
}

// linger is how long the rest of an unwanted body is read for, so that its
// sender gets to see the answer.
const linger = 500 * time.Millisecond

// abandonBody gives the connection up after the answer. Without a deadline
// net/http would wait for the rest for as long as the client likes.
func abandonBody(w http.ResponseWriter, control *http.ResponseController) {
	w.Header().Set("Connection", "close")
	_ = control.SetReadDeadline(in(linger))
}

var errNoMemory = errors.New("no memory for the body")

// fill reads src to its end. Memory grows with what has come.
func (p *payload) fill(src io.Reader, announced, limit int64) error {
	most := limit + 1
	if announced >= 0 {
		most = announced + 1
	}
	var buf []byte
	for {
		if len(buf) == cap(buf) {
			grown, err := p.grow(buf, most)
			if err != nil {
				return err
			}
			buf = grown
		}
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			p.bytes.Store(&buf)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *payload) grow(buf []byte, most int64) ([]byte, error) {
	size := min(max(2*int64(cap(buf)), firstPiece), max(most, int64(cap(buf))+1))
	if !p.budget.Take(size - p.held.Load()) {
		return nil, errNoMemory
	}
	p.held.Store(size)
	return append(make([]byte, 0, size), buf...), nil
}

// unread is what the client is told of a body that could not be taken in.
func (g *Gateway) unread(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(g.cfg.MaxBody)
	}
	switch {
	case errors.Is(err, errNoMemory):
		g.counts.overloaded.Add(1)
		return &request.Error{
			Status: http.StatusServiceUnavailable, Code: "overloaded",
			Message: "too many large requests are in flight; try again",
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &request.Error{
			Status: http.StatusRequestTimeout, Code: "body_timeout", Param: "body",
			Message: "the body did not come within " + g.cfg.BodyTimeout.String(),
		}
	}
	return &request.Error{
		Status: http.StatusBadRequest, Code: "body_incomplete", Param: "body",
		Message: "the body broke off or its framing is wrong",
	}
}
