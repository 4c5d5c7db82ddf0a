package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// forwardTimeout bounds the opening of a forward.
	forwardTimeout = 20 * time.Second
	// answerTimeout bounds how long an answer's first byte may take: a picker looks 60 s
	// for a decision at most.
	answerTimeout = 75 * time.Second
	// idleTimeout is how long an unused connection through a forward is kept.
	idleTimeout = 30 * time.Second
)

// Tunnel carries connections to ports of a namespace's pods through the API server, as
// 'kubectl port-forward' does, but opens no port on this host: it is dialed through.
// A forward that was lost is opened again by the next connection. It is safe for
// concurrent use; [Tunnel.Close] ends all that it started.
type Tunnel struct {
	cluster   *Cluster
	namespace string
	find      func(ctx context.Context, host string) (pod string, err error)

	mu       sync.Mutex
	forwards map[string]*forward // by pod
	closed   bool
	readers  sync.WaitGroup
}

// NewTunnel makes a tunnel. The host of an address is a pod's name, or what find makes
// a pod's name of; it is asked for each connection. nil = only names of pods.
func (c *Cluster) NewTunnel(namespace string, find func(ctx context.Context, host string) (pod string, err error)) *Tunnel {
	if find == nil {
		find = func(_ context.Context, host string) (string, error) { return host, nil }
	}
	return &Tunnel{cluster: c, namespace: namespace, find: find, forwards: map[string]*forward{}}
}

// Close ends all forwards, and the connections through them. A forward that is just
// being opened ends itself.
func (t *Tunnel) Close() {
	t.mu.Lock()
	t.closed = true
	forwards := t.forwards
	t.forwards = nil
	t.mu.Unlock()
	for _, f := range forwards {
		if f.mu.TryLock() {
			f.end()
			f.mu.Unlock()
		}
	}
	t.readers.Wait()
}

// listen starts a reader, unless the tunnel is closed.
func (t *Tunnel) listen(read func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.readers.Go(read)
	}
	return !t.closed
}

var errTunnelClosed = errors.New("the tunnel is closed")

// DialContext connects to "POD:PORT". The error is a [*StepError]; that nothing listens
// there shows when the connection is read from.
func (t *Tunnel) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("forward to %s: %w", address, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("forward to %s: %q is no port", address, portText)
	}
	pod, err := t.find(ctx, host)
	if err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		f, err := t.forwardTo(pod)
		if err != nil {
			return nil, err
		}
		conn, final, err := f.dial(ctx, int(port))
		if err == nil || final || again {
			return conn, err
		}
		f.drop() // it was lost since it was opened
	}
}

func (t *Tunnel) forwardTo(pod string) (*forward, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errTunnelClosed
	}
	f := t.forwards[pod]
	if f == nil {
		f = &forward{tunnel: t, pod: pod}
		t.forwards[pod] = f
	}
	return f, nil
}

// forward is the way to one pod.
type forward struct {
	tunnel *Tunnel
	pod    string

	mu     sync.Mutex
	conn   httpstream.Connection // nil until it is needed, and after it was lost
	opened int                   // connections on it
}

// dial opens a connection to a port. final tells that another forward would not do
// better than this one, as it is new.
func (f *forward) dial(ctx context.Context, port int) (conn net.Conn, final bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != nil && isClosed(f.conn.CloseChan()) {
		f.conn = nil
	}
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	if f.conn == nil {
		final = true
		if f.conn, err = f.tunnel.cluster.openForward(ctx, Name{f.tunnel.namespace, f.pod}); err != nil {
			return nil, true, err
		}
	}
	f.opened++
	conn, err = f.connect(ctx, f.opened, port)
	if errors.Is(err, errTunnelClosed) {
		f.end()
		return nil, true, err
	}
	step, ok := errors.AsType[*StepError](err)
	return conn, final || ok && step.Trouble == Closed, err
}

func isClosed(c <-chan bool) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// drop gives a broken forward up.
func (f *forward) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end()
}

func (f *forward) end() {
	if f.conn != nil {
		_ = f.conn.Close() // it may be broken already
		f.conn = nil
	}
}

// Transport is for requests to http://POD:PORT, or https. A pod's certificate is not
// checked: the API server answers for who is at the other end, and a picker makes its
// certificate itself.
func (t *Tunnel) Transport() http.RoundTripper {
	return loopback{&http.Transport{
		DialContext: t.DialContext, ResponseHeaderTimeout: answerTimeout, IdleConnTimeout: idleTimeout,
		TLSHandshakeTimeout: forwardTimeout, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as said above
	}}
}

// loopback tells the server the host that it is called by within its pod: a picker's
// admin API answers to no other.
type loopback struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (l loopback) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Host = net.JoinHostPort("127.0.0.1", req.URL.Port())
	resp, err := l.Transport.RoundTrip(req)
	// net/http puts words of its own before an error that comes while a connection idles.
	if step, ok := errors.AsType[*StepError](err); ok {
		err = step
	}
	return resp, err
}

// tunnelConfig is for upgraded connections, which outlive the limit of a request.
func (c *Cluster) tunnelConfig() *rest.Config {
	config := rest.CopyConfig(c.config)
	config.Timeout = 0
	return config
}
