package kube

import (
	"io"
	"net/http"

	"github.com/eppctl/eppctl/internal/clock"
)

// listen notes when the API server sends something.
func (w *Watch) listen(next http.RoundTripper) http.RoundTripper { return listener{next, w} }

type listener struct {
	next http.RoundTripper
	w    *Watch
}

// RoundTrip implements [http.RoundTripper].
func (l listener) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err == nil {
		l.w.heard()
		resp.Body = heardBody{resp.Body, l.w}
	}
	return resp, err
}

func (w *Watch) heard() { w.contact.Store(clock.Wall{}.Now().UnixNano()) }

// heardBody is a body that notes when something comes.
type heardBody struct {
	io.ReadCloser
	w *Watch
}

// Read implements [io.Reader].
func (b heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.w.heard()
	}
	return n, err
}
