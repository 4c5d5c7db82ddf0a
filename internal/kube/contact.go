package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
)

// How long the API server may be silent: before it answers, or begins with a list
// that is streamed; and in a watch, which it ends itself after ten minutes at most.
const (
	silentFor   = time.Minute
	silentWatch = 11 * time.Minute
)

var errSilent = errors.New("the API server takes requests and does not answer")

// listen notes when the API server sends something, and gives up on one that does not.
func (w *Watch) listen(next http.RoundTripper) http.RoundTripper { return listener{next, w} }

type listener struct {
	next http.RoundTripper
	w    *Watch
}

// RoundTrip implements [http.RoundTripper].
func (l listener) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	silence := time.AfterFunc(silentFor, func() { cancel(errSilent) })
	resp, err := l.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		silence.Stop()
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		cancel(nil)
		return nil, err
	}
	l.w.heard()
	if r.URL.Query().Get("sendInitialEvents") != "true" {
		silence.Reset(silentWatch)
	}
	resp.Body = heardBody{resp.Body, l.w, silence, func() { cancel(nil) }}
	return resp, nil
}

func (w *Watch) heard() { w.contact.Store(clock.Wall{}.Now().UnixNano()) }

// heardBody is a body that notes when something comes.
type heardBody struct {
	io.ReadCloser
	w       *Watch
	silence *time.Timer // ends the request
	cancel  func()
}

// Read implements [io.Reader].
func (b heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.w.heard()
		b.silence.Reset(silentWatch)
	}
	return n, err
}

// Close implements [io.Closer].
func (b heardBody) Close() error {
	b.silence.Stop()
	b.cancel()
	return b.ReadCloser.Close()
}
