package zmtp

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
)

// A Peer is one connection. A peer that comes back is another Peer.
type Peer struct {
	// ID is unique in this process.
	ID uint64
	// Address is where the peer is: what was connected to, or from where it came.
	Address string

	conn net.Conn
}

// Close ends the peer's connection, and does not wait until its handler is told.
// One that was connected to is connected to again.
func (p Peer) Close() { p.conn.Close() }

var peers atomic.Uint64

// A Handler is told what happens on connections. The calls about one peer come
// from one goroutine, in order; those about different peers may come at once.
// While a call lasts, the peer's connection is not read.
type Handler interface {
	// Connected is called before all messages of a peer.
	Connected(p Peer)
	// Message is called with a message. The parts, of which there is at least
	// one, are good until it returns.
	Message(p Peer, parts [][]byte)
	// Disconnected is called after all messages of a peer, with the reason.
	// Whatever the publisher sends until the next Connected is lost.
	Disconnected(p Peer, err error)
	// Failed is called when a connection ended before it was a peer: it could not
	// be made, the handshake went wrong, or there were too many ([ErrTooMany]).
	Failed(address string, err error)
}

// Subscribe connects to a publisher at tcp://host:port and hands its messages to
// h until ctx ends, then it returns nil. A connection that cannot be made, or that
// ends, is made again after a pause that grows from 50 ms to 5 s. The error is of
// an address that cannot be.
func Subscribe(ctx context.Context, address string, o Options, h Handler) error {
	o = o.orDefaults()
	return keep(ctx, address, o,
		func(ctx context.Context, nc net.Conn) { subscribe(ctx, nc, address, o, h) },
		func(err error) { h.Failed(address, err) })
}

// listenBudget is what the buffers of a listening subscriber hold together, if its
// options do not say: anybody may connect to it.
const listenBudget = 256 << 20

// ServeSubscriber hands to h the messages of all publishers that connect to l,
// until ctx ends, then it returns nil. It closes l. A publisher that keeps silent
// or sends nonsense is in nobody's way.
func ServeSubscriber(ctx context.Context, l net.Listener, o Options, h Handler) error {
	o = o.orDefaults()
	if o.Limits.Budget == nil {
		o.Limits.Budget = NewBudget(listenBudget)
	}
	return accept(ctx, l, o.Peers,
		func(ctx context.Context, nc net.Conn) { subscribe(ctx, nc, nc.RemoteAddr().String(), o, h) },
		func(nc net.Conn, err error) { h.Failed(nc.RemoteAddr().String(), err) })
}

// subscribe lives the life of one connection.
func subscribe(ctx context.Context, nc net.Conn, address string, o Options, h Handler) {
	peer, topic := Peer{Address: address, conn: nc}, []byte(o.Topic)
	err := use(ctx, nc, sub, o, func(c *conn) error {
		c.beat(o.Heartbeat)
		if err := c.write(c.subscription(o.Topic)); err != nil {
			return err
		}
		peer.ID = peers.Add(1)
		h.Connected(peer)
		return c.receive(func(parts [][]byte) error {
			if bytes.HasPrefix(parts[0], topic) { // not every publisher looks
				h.Message(peer, parts)
			}
			return nil
		})
	})
	if peer.ID != 0 {
		h.Disconnected(peer, err)
	} else if ctx.Err() == nil {
		h.Failed(address, err)
	}
}

// subscription asks for a topic in the way of the peer's version.
func (c *conn) subscription(topic string) []byte {
	if c.minor >= 1 {
		return appendCommand(nil, "SUBSCRIBE", []byte(topic))
	}
	return appendFrame(nil, 0, append([]byte{subscribeByte}, topic...))
}

// What the messages of a subscriber to a publisher before 3.1 begin with.
const (
	cancelByte    = 0
	subscribeByte = 1
)
