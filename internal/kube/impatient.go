package kube

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"
)

// impatient gives requests up when their time is over, also while a program that the
// kubeconfig names gets the credentials: client-go waits for that as long as it takes.
func impatient(config *rest.Config, client *http.Client) *http.Client {
	if config.ExecProvider == nil {
		return client
	}
	return &http.Client{Transport: unwaited{client.Transport}, Timeout: client.Timeout, CheckRedirect: client.CheckRedirect}
}

// unwaited is a transport that is not waited for. A request that it was left with ends by
// itself: the program does, or the process.
type unwaited struct{ next http.RoundTripper }

type answered struct {
	resp *http.Response
	err  error
}

// RoundTrip implements [http.RoundTripper].
func (u unwaited) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, done := req.Context(), make(chan answered)
	go func() {
		resp, err := u.next.RoundTrip(req)
		select {
		case done <- answered{resp, err}:
		case <-ctx.Done():
			if err == nil {
				_ = resp.Body.Close() // nobody wants it any more
			}
		}
	}()
	select {
	case a := <-done:
		return a.resp, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
