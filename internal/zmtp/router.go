package zmtp

import (
	"bufio"
	"context"
	"net"
)

// An Answer takes a request and replies to it any number of times. Requests begin
// with the empty part that REQ sends, and replies must do so too. The request is
// good until it returns; an error ends the connection. The next request of the
// same peer waits for it.
type Answer func(ctx context.Context, request [][]byte, reply func(parts ...[]byte) error) error

// ServeRouter answers the requests of all peers that connect to l until ctx ends,
// then it returns nil. It closes l.
func ServeRouter(ctx context.Context, l net.Listener, o Options, answer Answer) error {
	o = o.orDefaults()
	return accept(ctx, l, o.Peers, func(ctx context.Context, nc net.Conn) {
		_ = use(ctx, nc, router, o, func(c *conn) error {
			return c.route(ctx, answer)
		}) // the peer knows why
	}, func(net.Conn, error) {})
}

func (c *conn) route(ctx context.Context, answer Answer) error {
	out := bufio.NewWriterSize(writer(c.write), readBuffer)
	var frames []byte
	reply := func(parts ...[]byte) error {
		frames = appendMessage(frames[:0], parts)
		_, err := out.Write(frames)
		return err
	}
	return c.receive(func(request [][]byte) error {
		if err := answer(ctx, request, reply); err != nil {
			return err
		}
		return out.Flush()
	})
}

// A writer writes with a deadline.
type writer func([]byte) error

func (w writer) Write(b []byte) (int, error) {
	if err := w(b); err != nil {
		return 0, err
	}
	return len(b), nil
}
