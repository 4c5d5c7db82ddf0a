package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Bounds of what is read of the API server, in bytes but for pageSize and maxObjects.
// An object has 1.5 MB there at most, unless etcd was told otherwise.
const (
	pageSize   = 250      // objects that are asked for at once
	maxPage    = 32 << 20 // of one answer, unpacked
	maxEvent   = 4 << 20  // of one event of a watch, which is one object
	maxRefusal = 64 << 10 // of what is said with an error; the rest is left out
	maxReason  = 1 << 10  // of an error that is told
	maxObjects = 50_000   // of a list
)

// maxRetryAfter is how long a server may ask to be left alone: a longer wait would look
// as if nothing was wrong.
const maxRetryAfter = 10 * time.Second

// TooLargeError says that the API server sent more than is read.
type TooLargeError struct {
	What string // "the answer to GET /api/v1/…"
	Most int    // bytes
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is larger than %d MiB, and is not read: find the objects that are so large (kubectl get … -o json | wc -c), and take out of them what does not belong there, such as long annotations", e.What, e.Most>>20)
}

// limited reads no more of any answer than fits.
type limited struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > int(maxRetryAfter.Seconds()) {
		resp.Header.Set("Retry-After", strconv.Itoa(int(maxRetryAfter.Seconds())))
	}
	of := r.Method + " " + r.URL.Path
	switch body := resp.Body; {
	case resp.StatusCode >= http.StatusBadRequest:
		resp.Body = readCloser{io.LimitReader(body, maxRefusal), body}
	case resp.StatusCode == http.StatusSwitchingProtocols, strings.HasSuffix(r.URL.Path, "/log"): // a stream of something else
	case r.URL.Query().Get("watch") != "":
		resp.Body = &eventBody{ReadCloser: body, size: sizerOf(resp.Header.Get("Content-Type")), of: of}
	default:
		resp.Body = &pageBody{ReadCloser: body, left: maxPage, of: of}
	}
	return resp, nil
}

// maxPages bounds the pages of a list, which need not be full.
const maxPages = 2 * maxObjects / pageSize

// aList is a list of objects L.
type aList[L any] interface {
	anObject[L]
	metav1.ListInterface
}

// pages reads a list once, a page at a time.
func pages[L any, P aList[L]](ctx context.Context, ask func() *rest.Request, take func(P)) error {
	next := ""
	for range maxPages {
		req := ask().Param("limit", strconv.Itoa(pageSize))
		if next != "" {
			req = req.Param("continue", next)
		}
		page, err := answer[L, P](req.Do(ctx))
		if err != nil {
			return err
		}
		take(page)
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
	return fmt.Errorf("the list has no end after %d pages", maxPages)
}

type readCloser struct {
	io.Reader
	io.Closer
}

// pageBody is an answer that ends.
type pageBody struct {
	io.ReadCloser
	left int // bytes; below 0 = there were too many
	of   string
}

// Read implements [io.Reader].
func (b *pageBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &TooLargeError{"the answer to " + b.of, maxPage}
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, &TooLargeError{"the answer to " + b.of, maxPage}
	}
	return n, err
}

// eventBody is a watch.
type eventBody struct {
	io.ReadCloser
	size sizer
	of   string
	over bool
}

// Read implements [io.Reader].
func (b *eventBody) Read(p []byte) (int, error) {
	n, err := 0, error(nil)
	if !b.over {
		n, err = b.ReadCloser.Read(p)
		b.over = b.size.longest(p[:n]) > maxEvent
	}
	if b.over {
		return 0, &TooLargeError{"an event of the watch " + b.of, maxEvent}
	}
	return n, err
}

// sizer finds how long events are.
type sizer interface {
	// longest is the size of the longest event that a part of the body belongs to, as
	// far as it has come.
	longest(part []byte) int
}

func sizerOf(contentType string) sizer {
	if strings.HasPrefix(contentType, runtime.ContentTypeProtobuf) {
		return new(frames)
	}
	return new(values)
}

// frames are events that begin with their length, in 4 bytes.
type frames struct{ length, head, left int }

func (f *frames) longest(part []byte) (most int) {
	for len(part) > 0 {
		if f.left > 0 {
			n := min(f.left, len(part))
			f.left, part = f.left-n, part[n:]
			continue
		}
		f.length, part = f.length<<8|int(part[0]), part[1:]
		if f.head++; f.head == 4 {
			most = max(most, f.length)
			f.left, f.length, f.head = f.length, 0, 0
		}
	}
	return most
}

// values are events in JSON, one after the other.
type values struct {
	size, depth     int
	quoted, escaped bool
}

func (v *values) longest(part []byte) (most int) {
	for _, c := range part {
		v.size++
		most = max(most, v.size)
		switch {
		case v.escaped:
			v.escaped = false
		case v.quoted:
			v.quoted, v.escaped = c != '"', c == '\\'
		case c == '"':
			v.quoted = true
		case c == '{', c == '[':
			v.depth++
		case c == '}', c == ']':
			if v.depth--; v.depth <= 0 {
				v.size, v.depth = 0, 0
			}
		}
	}
	return most
}
