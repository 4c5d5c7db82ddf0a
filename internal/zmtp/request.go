package zmtp

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// errEnough is that the caller wants no more replies.
var errEnough = errors.New("enough")

// Request connects a DEALER to a router at tcp://host:port, sends one message and
// yields the replies as they come. A router that expects a REQ wants an empty part
// before the others, and sends one. Each reply is good until the next.
//
// The replies end when the caller has enough, or with an error as the last pair:
// the router closed the connection, or ctx ended. Nothing else ends them, so ctx
// should have a deadline. The connection is closed then; there is no second try.
func Request(ctx context.Context, address string, o Options, parts ...[]byte) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		enough := false
		err := request(ctx, address, o.orDefaults(), parts, func(reply [][]byte) error {
			if enough = !yield(reply, nil); enough {
				return errEnough
			}
			return nil
		})
		if !enough {
			yield(nil, fmt.Errorf("request to %s: %w", address, err))
		}
	}
}

func request(ctx context.Context, address string, o Options, parts [][]byte, reply func([][]byte) error) error {
	hostPort, err := dialAddress(address)
	if err != nil {
		return err
	}
	nc, err := o.dial(ctx, hostPort)
	if err != nil {
		return err
	}
	return use(ctx, nc, dealer, o, func(c *conn) error {
		c.beat(o.Heartbeat)
		if err := c.write(appendMessage(nil, parts)); err != nil {
			return err
		}
		return c.receive(reply)
	})
}
