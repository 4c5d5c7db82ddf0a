package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/internal/logkey"
)

// guard is before every handler: it turns away what a page in the operator's
// browser could send, and survives panics.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set(apiHeader, APIVersion)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		allow(http.NewResponseController(w), searchTimeout+writeTimeout) // a list may have left its own
		defer s.survive(w, r)
		err := s.admit(r)
		if err == nil {
			err = s.authorize(w, r)
		}
		if err != nil {
			s.answerError(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit checks Host and Origin. A name that its owner points to 127.0.0.1 makes
// a browser treat this server as part of that site (DNS rebinding); the Host
// header still tells. A browser names the page that sends something in Origin,
// which no client of ours does.
func (s *server) admit(r *http.Request) error {
	if onLoopback(r) && !s.knownHost(r.Host) {
		return fail(http.StatusForbidden, CodeHost, "requests for the host "+quoted(r.Host)+" are not answered here").
			hint("use localhost or 127.0.0.1")
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if _, browser := r.Header["Origin"]; browser && !reads {
		return fail(http.StatusForbidden, CodeOrigin, "pages in a browser may not change anything here")
	}
	return nil
}

// onLoopback reports whether the connection came in on a loopback address, which
// is taken for granted when the server did not say.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return true
	}
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

func (s *server) knownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	return loopback(name) || slices.Contains(s.Hosts, name)
}

// survive answers 500 for a handler that panicked. What it panicked with stays
// out of the answer, and of the log but for its type.
func (s *server) survive(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	s.Logger.ErrorContext(r.Context(), "admin handler panicked",
		slog.String(logkey.Path, r.URL.Path), slog.String(logkey.Error, fmt.Sprintf("panic of type %T", v)),
		slog.String(logkey.Stack, string(debug.Stack())))
	s.answerError(w, r, fail(http.StatusInternalServerError, CodeInternal, "the picker could not answer").hint("its log says why"))
}
