package gateway

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
)

// answer is a pod's response body on its way to the client.
type answer struct {
	io.ReadCloser
	x     *exchange
	res   *http.Response
	usage *usageReader // nil when the answer can't hold any

	complete bool  // the pod's end was read
	broken   error // why it was not
}

// Read implements [io.Reader].
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if n > 0 {
		a.x.pick.FirstByte()
		if a.usage != nil {
			a.usage.watch(p[:n])
		}
		a.x.allowWrite()
	}
	switch {
	case errors.Is(err, io.EOF):
		a.complete = true
		strip(a.res.Trailer) // it has just come
	case err != nil:
		a.broken = err
	}
	return n, err
}

// format is how an answer's body is written.
type format uint8

const (
	opaque format = iota
	jsonText
	eventStream
)

func formatOf(h http.Header) format {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return opaque
	}
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case err != nil && h.Get("Content-Type") != "":
		return opaque
	case media == "text/event-stream":
		return eventStream
	case media == "", media == "application/json", strings.HasSuffix(media, "+json"):
		return jsonText
	}
	return opaque
}

// watch puts the exchange's readers between the pod's body and the client.
func (x *exchange) watch(res *http.Response) {
	a := &answer{ReadCloser: res.Body, x: x, res: res}
	x.answer, res.Body = a, a
	f := formatOf(res.Header)
	if f == opaque || res.Request.Method == http.MethodHead || res.ContentLength == 0 {
		return
	}
	if res.StatusCode < http.StatusMultipleChoices {
		u := newUsageReader(f == eventStream)
		a.usage = &u
	}
	if x.served != "" {
		res.Body = newRenamer(a, f == eventStream, x.served, x.asked)
		res.ContentLength = -1
		res.Header.Del("Content-Length")
	}
}
