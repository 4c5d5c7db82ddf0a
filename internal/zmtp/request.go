package zmtp

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// replyTime is how long a router may take for a reply, unless the options say.
const replyTime = 5 * time.Second

// ErrNoReply is what a request ends with when no reply came in time.
var ErrNoReply = errors.New("no reply in time")

// errEnough is that the caller wants no more replies.
var errEnough = errors.New("enough")

// Request connects a DEALER to a router at tcp://host:port, sends one message and
// yields the replies as they come. A router that expects a REQ wants an empty part
// before the others, and sends one. Each reply is good until the next.
//
// The replies end when the caller has enough, or with an error as the last pair:
// [ErrNoReply], the router closed the connection, or ctx ended. The connection is
// closed then; there is no second try. Nothing else ends the replies, so ctx
// should have a deadline.
//
// A router of libzmq drops silently the replies that its queue does not take, by
// default those beyond 1,000 that wait. So of a long series any may be missing,
// the last too: number them and ask again from the first that did not come.
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
		c.due(o.Reply, ErrNoReply)
		return c.receive(func(parts [][]byte) error {
			err := reply(parts)
			c.due(o.Reply, ErrNoReply) // the caller's time is not the router's
			return err
		})
	})
}
