package scrape

import (
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/eppctl/eppctl/internal/metricview"
)

// ErrorKind is how a page could not be read.
type ErrorKind int

// The kinds of errors.
const (
	Unreachable ErrorKind = iota // nothing answers there
	Slow                         // there was no page in time
	Forbidden                    // 401 or 403
	NotFound                     // 404: there is no page of that path
	Refused                      // another status
	NotMetrics                   // something that is not a page of metrics
)

// Error says why a page could not be read.
type Error struct {
	Source string
	Kind   ErrorKind
	Err    error
}

// Error implements error.
func (e *Error) Error() string { return e.Source + ": " + e.Reason() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Reason is the error without the source.
func (e *Error) Reason() string {
	dns, noName := errors.AsType[*net.DNSError](e.Err)
	switch {
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens " + e.where()
	case noName:
		return fmt.Sprintf("the name %s is not known", dns.Name)
	case errors.Is(e.Err, syscall.ECONNRESET):
		return "the connection was closed"
	case wrongScheme(e.Err):
		return "it speaks http, not https"
	}
	return e.Err.Error()
}

// where names the address that was called when it is another: a proxy's, or a name's.
func (e *Error) where() string {
	call, ok := errors.AsType[*net.OpError](e.Err)
	if !ok || call.Addr == nil || strings.Contains(e.Source, call.Addr.String()) {
		return "there"
	}
	return "at " + call.Addr.String()
}

// Hint says what to do.
func (e *Error) Hint() string {
	switch e.Kind {
	case Unreachable:
		return e.unreachableHint()
	case Slow:
		return "is it overloaded, or is a network policy in the way? Wait longer with --timeout"
	case Forbidden:
		return "the page wants a token: kubectl create token SERVICE-ACCOUNT > FILE, and give it with --token-file FILE;\n" +
			"an llm-d picker asks for none with --metrics-endpoint-auth=false (chart: monitoring.prometheus.auth.enabled: false)"
	case NotFound:
		return "pickers and engines have their page at /metrics; is this the port of metrics (9090 for a picker, 8000 for vLLM)?"
	case Refused:
		return "look at the log of the server that answered"
	case NotMetrics:
		return e.notMetricsHint()
	}
	return ""
}

func (e *Error) unreachableHint() string {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](e.Err)
	switch {
	case untrusted:
		return "its certificate is not one that this host trusts: reach it over http, or trust its authority with SSL_CERT_FILE"
	case wrongScheme(e.Err):
		return "write http:// in its address"
	}
	return "is the picker running, and this the address of its metrics (--metrics-addr, port 9090)?\n" +
		"in a cluster: kubectl port-forward POD 9090, then --metrics-url http://127.0.0.1:9090"
}

func wrongScheme(err error) bool {
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	return noTLS || err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

func (e *Error) notMetricsHint() string {
	wrong, isType := errors.AsType[*metricview.ContentTypeError](e.Err)
	_, tooLarge := errors.AsType[*metricview.LimitError](e.Err)
	switch {
	case errors.Is(e.Err, metricview.ErrHTML):
		return "a web page answers there: a proxy's error, a login, or a dashboard; give the address of the picker's own /metrics"
	case isType && strings.HasSuffix(wrong.Type, "json"):
		return "an API answers there: give the admin API with --server, or the port of metrics with --metrics-url"
	case tooLarge:
		return "no picker or engine has so much: is it the page of a Prometheus server, or a label without bounds?"
	}
	return "see what is there: curl -s " + e.Source
}

// statusError explains an answer that is no page.
func statusError(address string, resp *http.Response) *Error {
	e := &Error{Source: address, Kind: Refused, Err: fmt.Errorf("HTTP %s", resp.Status)}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		e.Kind, e.Err = Forbidden, errors.New("HTTP 401: the page is not for everybody, and no token that it takes was sent")
	case http.StatusForbidden:
		e.Kind, e.Err = Forbidden, errors.New("HTTP 403: the token, or its lack, does not allow to read the page")
	case http.StatusNotFound:
		e.Kind, e.Err = NotFound, errors.New("HTTP 404: there is no page of that path")
	case http.StatusServiceUnavailable:
		e.Err = errors.New("HTTP 503: too many read the page at once, or the server is not ready")
	}
	if resp.StatusCode/100 == 3 {
		e.Err = fmt.Errorf("HTTP %d: it redirects to another server, which is not followed", resp.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && kind == "text/html" && e.Kind == Refused {
		e.Err = fmt.Errorf("%w, with a page of HTML", e.Err)
	}
	return e
}
