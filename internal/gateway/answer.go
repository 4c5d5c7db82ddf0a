package gateway

import (
	"errors"
	"io"
	"net/http"

	"github.com/eppctl/eppctl/internal/answer"
	"github.com/eppctl/eppctl/internal/steering"
)

// watched is a pod's response body on its way to the client.
type watched struct {
	io.ReadCloser
	x     *exchange
	res   *http.Response
	usage *answer.UsageReader // nil when the answer can't hold any

	complete bool  // the pod's end was read
	broken   error // why it was not
}

// Read implements [io.Reader].
func (a *watched) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if n > 0 {
		a.x.pick.FirstByte()
		if a.usage != nil {
			a.usage.Watch(p[:n])
		}
		a.x.allowWrite()
	}
	switch {
	case errors.Is(err, io.EOF):
		a.complete = true
		steering.Strip(a.res.Trailer) // it has just come
	case err != nil:
		a.broken = err
	}
	return n, err
}

// renamed is a response body in which a renamer is at work.
type renamed struct {
	io.ReadCloser
	renamer *answer.Renamer
	out     []byte
	pending []byte // of out
	err     error
}

// Read implements [io.Reader].
func (r *renamed) Read(p []byte) (int, error) {
	for len(r.pending) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		n, err := r.ReadCloser.Read(p)
		r.out = r.renamer.Append(r.out[:0], p[:n])
		if err != nil {
			r.out, r.err = r.renamer.Flush(r.out), err
		}
		r.pending = r.out
		if n == 0 && err == nil {
			return 0, nil
		}
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}

// watch puts the exchange's readers between the pod's body and the client.
func (x *exchange) watch(res *http.Response) {
	a := &watched{ReadCloser: res.Body, x: x, res: res}
	x.answer, res.Body = a, a
	f := answer.FormatOf(res.Header.Get("Content-Type"), res.Header.Get("Content-Encoding"))
	if f == answer.Opaque || res.Request.Method == http.MethodHead || res.ContentLength == 0 {
		return
	}
	if res.StatusCode < http.StatusMultipleChoices {
		u := answer.NewUsageReader(f)
		a.usage = &u
	}
	if x.served != "" {
		res.Body = &renamed{ReadCloser: a, renamer: answer.NewRenamer(f, x.served, x.asked)}
		res.ContentLength = -1
		res.Header.Del("Content-Length")
	}
}
