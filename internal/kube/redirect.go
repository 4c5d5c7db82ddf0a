package kube

import (
	"errors"
	"net/http"
)

// maxRedirects is as Go's own client has it.
const maxRedirects = 10

// strayError says that the server sends on to another one.
type strayError struct{ to string }

// Error implements error.
func (e *strayError) Error() string { return "it sends on to " + e.to }

// sameServer follows no redirect to another server, or to plain text: client-go would
// show the user's token there too.
func sameServer(req *http.Request, via []*http.Request) error {
	to, from := req.URL, via[0].URL
	switch {
	case to.Scheme != from.Scheme || to.Host != from.Host:
		return &strayError{to.Scheme + "://" + to.Host}
	case len(via) >= maxRedirects:
		return errors.New("it only ever sends on to itself")
	}
	return nil
}
