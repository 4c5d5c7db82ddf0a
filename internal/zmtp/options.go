package zmtp

import (
	"context"
	"net"
	"time"
)

// Options say how a socket behaves. The zero value is good.
type Options struct {
	// Topic is what the first part of a message must begin with, for a
	// subscriber; empty for all messages.
	Topic string
	// Heartbeat is the time between two PINGs to a publisher or router whose
	// version knows them (3.1), by default 5 s. A peer that is silent for three of
	// them is dead. Publishers and routers send none, as engines do not.
	Heartbeat time.Duration
	// Reply is how long a router may take for each reply, by default 5 s.
	Reply time.Duration
	// Limits bounds what one connection may make this side hold.
	Limits Limits
	// Peers is how many connections a listening socket has at most, those that
	// still shake hands included; by default 256. The next ones are closed at once.
	Peers int

	// dial connects; nil for TCP. Tests set it.
	dial func(ctx context.Context, address string) (net.Conn, error)
}

func (o Options) orDefaults() Options {
	o.Limits = o.Limits.orDefaults()
	if o.Heartbeat == 0 {
		o.Heartbeat = heartbeat
	}
	if o.Reply == 0 {
		o.Reply = replyTime
	}
	if o.Peers == 0 {
		o.Peers = 256
	}
	if o.dial == nil {
		o.dial = dialTCP
	}
	return o
}
