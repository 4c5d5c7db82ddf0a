package kube

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
)

// givenUp is a connection whose other end gives it up.
type givenUp struct {
	net.Conn
	why    error
	closed context.CancelFunc
}

func (c *givenUp) Read([]byte) (int, error) { return 0, c.why }

func (c *givenUp) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// What net/http says of its own workings, when that comes before the request, is not
// said on.
func TestTunnelTellsTheStepAlone(t *testing.T) {
	why := &StepError{Step: "connect to port 9090", Trouble: Closed, Err: errors.New("connection refused")}
	ours, theirs := net.Pipe()
	defer theirs.Close()
	closed, cancel := context.WithCancel(t.Context())
	client := loopback{&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return &givenUp{ours, why, cancel}, nil
	}}}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { <-closed.Done() }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://epp-0:9090/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, why) || err.Error() != why.Error() {
		t.Errorf("%v, want %v", err, why)
	}
}
