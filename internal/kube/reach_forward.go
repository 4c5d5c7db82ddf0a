package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	constants "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
	streamspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// openForward opens a forward to a pod: over WebSocket, and where a server or proxy
// doesn't take that, or a role allows only the older way, over SPDY.
func (c *Cluster) openForward(ctx context.Context, pod Name) (httpstream.Connection, error) {
	client, err := c.core()
	if err != nil {
		return nil, err
	}
	address := client.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("portforward").URL()
	conn, err := c.webSocket(ctx, address)
	if err != nil && ctx.Err() == nil && refusedUpgrade(err) {
		conn, err = c.spdy(ctx, address)
	}
	if err != nil {
		return nil, c.forwardFailed(ctx, pod, err)
	}
	return conn, nil
}

// refusedUpgrade: the server answered, or a proxy is there that WebSocket can't pass.
func refusedUpgrade(err error) bool {
	return strings.HasPrefix(err.Error(), "unable to upgrade") || httpstream.IsHTTPSProxyError(err)
}

func (c *Cluster) webSocket(ctx context.Context, address *url.URL) (httpstream.Connection, error) {
	transport, holder, err := websocket.RoundTripperFor(c.tunnelConfig())
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	conn, err := websocket.Negotiate(transport, holder, req, constants.WebsocketsSPDYTunnelingPrefix+portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	return streamspdy.NewClientConnectionWithPings(portforward.NewTunnelingConnection("client", conn), portforward.PingPeriod)
}

func (c *Cluster) spdy(ctx context.Context, address *url.URL) (httpstream.Connection, error) {
	transport, upgrader, err := spdy.RoundTripperFor(c.tunnelConfig())
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), nil)
	if err != nil {
		return nil, err
	}
	conn, protocol, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport, CheckRedirect: sameServer}, req, portforward.PortForwardProtocolV1Name)
	if err == nil && protocol != portforward.PortForwardProtocolV1Name {
		err = errors.Join(fmt.Errorf("the server speaks %q, not %s", protocol, portforward.PortForwardProtocolV1Name), conn.Close())
	}
	return conn, err
}

// forwardFailed explains why there is no forward. What the API server said is text
// alone by then.
func (c *Cluster) forwardFailed(ctx context.Context, pod Name, err error) error {
	text := err.Error()
	for _, head := range []string{"error sending request: ", "unable to upgrade connection: ", "unable to upgrade streaming request: "} {
		text = strings.TrimPrefix(text, head)
	}
	a := access{"create", "pods/portforward", pod.Namespace, pod.Name}
	step := "forward to pod " + pod.String()
	switch {
	case strings.Contains(text, "forbidden"):
		err := c.failed(ctx, a, apierrors.NewForbidden(corev1.Resource(a.resource), pod.Name, errors.New(text)))
		if e, ok := errors.AsType[*StepError](err); ok {
			e.Err = errors.New(text)
			e.Hint += "\nwithout a forward: " + c.Kubectl("logs", "-n", pod.Namespace, pod.Name) + " | eppctl explain latest -f -"
		}
		return err
	case strings.HasPrefix(text, "pods ") && strings.HasSuffix(text, "not found"):
		return &StepError{Step: step, Trouble: Missing, Err: errors.New("the pod is gone"), Hint: "see: " + c.Kubectl("get", "pods", "-n", pod.Namespace)}
	case c.silent(err):
		return c.failed(ctx, a, err)
	}
	return &StepError{
		Step: step, Trouble: Unreachable, Err: errors.New(text),
		Hint: "does its node answer? See: " + c.Kubectl("get", "pods", "-n", pod.Namespace, pod.Name, "-o", "wide"),
	}
}

// connect opens a connection to a port of the forward's pod: a stream of data, and one
// on which the node says what is wrong with it.
func (f *forward) connect(ctx context.Context, id, port int) (net.Conn, error) {
	faults, err := f.stream(ctx, corev1.StreamTypeError, id, port)
	if err != nil {
		return nil, f.lost(err)
	}
	_ = faults.Close() // nothing is said on it from here
	c := &podConn{faults: faults, forward: f, streams: f.conn, port: port, told: make(chan struct{})}
	if !f.tunnel.listen(c.listen) {
		return nil, errTunnelClosed
	}
	if c.data, err = f.stream(ctx, corev1.StreamTypeData, id, port); err == nil {
		return c, nil
	}
	if why := c.refused(); why != nil { // the node was quicker to give it up
		err = why
	} else {
		err = f.lost(err)
	}
	_ = faults.Reset() // the connection may be gone
	f.conn.RemoveStreams(faults)
	return nil, err
}

// stream opens a stream. One whose forward is lost meanwhile is given up by client-go
// after 30 s, which nobody waits for.
func (f *forward) stream(ctx context.Context, kind string, id, port int) (httpstream.Stream, error) {
	h := http.Header{}
	h.Set(corev1.StreamType, kind)
	h.Set(corev1.PortHeader, strconv.Itoa(port))
	h.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(id))
	type opened struct {
		stream httpstream.Stream
		err    error
	}
	done, gone, conn := make(chan opened), make(chan struct{}), f.conn
	defer close(gone)
	go func() { // for as long as the connection lives: nothing ends it sooner
		s, err := conn.CreateStream(h)
		select {
		case done <- opened{s, err}:
		case <-gone:
			if err == nil {
				_ = s.Reset() // nobody wants it any more
			}
		}
	}()
	select {
	case o := <-done:
		return o.stream, o.err
	case <-conn.CloseChan():
		return nil, errors.New("it was closed")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (f *forward) lost(err error) error {
	return &StepError{
		Step: "forward to pod " + f.tunnel.namespace + "/" + f.pod, Trouble: Unreachable, Err: fmt.Errorf("the connection was lost: %w", err),
		Hint: "is the pod still there? See: " + f.tunnel.cluster.Kubectl("get", "pods", "-n", f.tunnel.namespace),
	}
}

// podConn is a connection to a port of a pod.
type podConn struct {
	forward      *forward
	streams      httpstream.Connection
	data, faults httpstream.Stream
	port         int
	read         bool // something was
	once         sync.Once

	told  chan struct{} // closed when the node has said what it has to
	fault string
}

const (
	// maxFault bounds what a node says is wrong, in bytes.
	maxFault = 4096
	// faultPatience is how long it may take to say it, after the connection has ended.
	faultPatience = 5 * time.Second
)

// listen reads what the node says is wrong.
func (c *podConn) listen() {
	defer close(c.told)
	text, _ := io.ReadAll(io.LimitReader(c.faults, maxFault)) // an end is an end
	c.fault = strings.TrimSpace(string(text))
}

// Read implements [net.Conn]. A connection that ends before its first byte is an error
// when the node says why.
func (c *podConn) Read(p []byte) (int, error) {
	n, err := c.data.Read(p)
	c.read = c.read || n > 0
	if err == nil || c.read {
		return n, err
	}
	if why := c.refused(); why != nil {
		err = why
	}
	return n, err
}

// refused is the error of a port that the node could not reach; nil when it does not
// say so.
func (c *podConn) refused() error {
	timer := time.NewTimer(faultPatience)
	defer timer.Stop()
	select {
	case <-c.told:
	case <-timer.C:
		return nil
	}
	f := c.forward
	e := &StepError{
		Step: fmt.Sprintf("connect to port %d of pod %s/%s", c.port, f.tunnel.namespace, f.pod), Trouble: Unreachable, Err: errors.New(c.fault),
		Hint: "see what it runs: " + f.tunnel.cluster.Kubectl("describe", "pod", f.pod, "-n", f.tunnel.namespace),
	}
	switch {
	case c.fault == "":
		return nil
	case strings.Contains(c.fault, "connection refused"):
		e.Trouble, e.Err = Closed, errors.New("connection refused: nothing listens there")
	}
	return e
}

// Write implements [net.Conn].
func (c *podConn) Write(p []byte) (int, error) { return c.data.Write(p) }

// Close implements [net.Conn].
func (c *podConn) Close() error {
	c.once.Do(func() {
		_ = c.data.Reset() // the connection may be gone already
		_ = c.faults.Reset()
		c.streams.RemoveStreams(c.data, c.faults)
	})
	return nil
}

// LocalAddr implements [net.Conn].
func (c *podConn) LocalAddr() net.Addr { return podAddr("forward") }

// RemoteAddr implements [net.Conn].
func (c *podConn) RemoteAddr() net.Addr {
	return podAddr(net.JoinHostPort(c.forward.pod, strconv.Itoa(c.port)))
}

// SetDeadline implements [net.Conn]. Requests have their contexts, so there are none.
func (c *podConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements [net.Conn], see [podConn.SetDeadline].
func (c *podConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements [net.Conn], see [podConn.SetDeadline].
func (c *podConn) SetWriteDeadline(time.Time) error { return nil }

type podAddr string

// Network implements [net.Addr].
func (podAddr) Network() string { return "pod" }

// String implements [net.Addr].
func (a podAddr) String() string { return string(a) }
