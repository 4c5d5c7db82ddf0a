package zmtp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

const (
	// handshakeTime is how long a handshake may take.
	handshakeTime = 5 * time.Second
	// messageTime is how long a message may take from its first byte that is
	// waited on to its last.
	messageTime = 30 * time.Second
	// writeTime is how long a peer may refuse to take what it is sent.
	writeTime = 10 * time.Second
	// heartbeat is by default the time between two PINGs.
	heartbeat = 5 * time.Second
	// deadAfter is how many heartbeats a peer may be silent.
	deadAfter = 3
	// ttlHeartbeats is how many heartbeats the peer is told to wait for the next
	// sign of life of ours. A handler that is busy for longer costs the
	// connection.
	ttlHeartbeats = 12
	// maxContext is how long the context of a PING may be.
	maxContext = 16
)

// What a peer is late with.
var (
	errShaking = fmt.Errorf("not done after %v: %w", handshakeTime, os.ErrDeadlineExceeded)
	errSilent  = fmt.Errorf("the peer is silent: %w", os.ErrDeadlineExceeded)
	errSlow    = fmt.Errorf("%w: a message took longer than %v", ErrLimit, messageTime)
)

// A conn is a connection after its handshake. One goroutine reads it.
type conn struct {
	net.Conn
	in    *reader
	minor byte // of the peer's version 3.x

	// send writes what answers a command; by default at once.
	send func([]byte) error
	// command is for commands that are not the same for all sockets; nil ignores
	// them, as it must those of later versions.
	command func(name string, data []byte) error

	pings     time.Duration // between two PINGs; 0 for none
	pinged    time.Time
	silence   time.Duration // how long the peer may say nothing; 0 for ever
	deadline  time.Time     // of the handshake or the next reply; zero for none
	overdue   error         // what is said after the deadline
	partial   time.Time     // since when part of a message waits for the rest
	partially uint64        // the message that is
}

// open shakes hands. It does not close what it was given.
func open(nc net.Conn, own socket, o Options) (*conn, error) {
	c := &conn{Conn: nc}
	c.due(handshakeTime, errShaking)
	c.in = newReader(c, Limits{Bytes: maxHandshake, Parts: 1})
	c.send = c.write
	if err := c.handshake(own); err != nil {
		c.in.close()
		return nil, fmt.Errorf("handshake: %w", err)
	}
	c.due(0, nil)
	c.in.expect(o.Limits)
	return c, nil
}

// due sets a deadline for what is read from now on, or none if d is 0.
func (c *conn) due(d time.Duration, overdue error) {
	if c.deadline, c.overdue = (time.Time{}), overdue; d > 0 {
		c.deadline = now().Add(d)
	}
}

func (c *conn) handshake(own socket) error {
	if err := c.write([]byte(greeting)); err != nil {
		return err
	}
	if err := c.readGreeting(); err != nil {
		return err
	}
	if err := c.write(appendCommand(nil, "READY", readyData(own))); err != nil {
		return err
	}
	message, command, err := c.in.next()
	switch {
	case err != nil:
		return err
	case message != nil:
		return fmt.Errorf("%w: a message before READY", ErrProtocol)
	}
	return checkReady(command, own)
}

// readGreeting judges each field as it comes: a peer that speaks something else
// may never send all of it.
func (c *conn) readGreeting() error {
	g, err := c.in.take(signatureEnd)
	if err != nil {
		return err
	}
	if g[0] != 0xff || g[signatureEnd-1] != 0x7f {
		return fmt.Errorf("%w: the peer does not speak ZMTP 3: it begins with %q", ErrProtocol, g)
	}
	g, err = c.in.take(majorEnd - signatureEnd)
	if err != nil {
		return err
	}
	major := g[0]
	if major < 3 {
		return fmt.Errorf("%w: the peer speaks an old ZMTP (revision %d), not 3", ErrProtocol, major)
	}
	if g, err = c.in.take(len(greeting) - majorEnd); err != nil {
		return err
	}
	if c.minor = g[0]; major > 3 {
		c.minor = 1 // it comes down to ours
	}
	if mechanism := string(g[minorEnd-majorEnd : mechanismEnd-majorEnd]); mechanism != mechanismNull {
		return fmt.Errorf("%w: the peer's security mechanism is %.20q, only NULL is spoken", ErrProtocol, mechanism)
	}
	return nil
}

// beat begins heartbeats, if the peer's version has them. Of another that died
// without a word the TCP keep-alive tells.
func (c *conn) beat(every time.Duration) {
	if c.minor >= 1 {
		c.pings, c.silence = every, deadAfter*every
	}
}

// receive hands out messages and obeys commands until one of them, or the
// connection, fails.
func (c *conn) receive(message func([][]byte) error) error {
	for {
		parts, command, err := c.in.next()
		if err == nil {
			if parts != nil {
				err = message(parts)
			} else {
				err = c.obey(command)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (c *conn) obey(command []byte) error {
	name, data, err := splitCommand(command)
	switch {
	case err != nil:
		return err
	case name == "PING":
		return c.pong(data)
	case name == "ERROR":
		return refusal(data)
	case name == "READY":
		return fmt.Errorf("%w: a second READY", ErrProtocol)
	case c.command != nil:
		return c.command(name, data)
	}
	return nil
}

// pong answers a PING, which says how long to wait for the next one, in tenths of
// a second, and what to send back.
func (c *conn) pong(data []byte) error {
	if len(data) < 2 || len(data) > 2+maxContext {
		return fmt.Errorf("%w: a PING with %d bytes", ErrProtocol, len(data))
	}
	if ttl := time.Duration(binary.BigEndian.Uint16(data)) * 100 * time.Millisecond; ttl > 0 && (c.silence == 0 || ttl < c.silence) {
		c.silence = ttl
	}
	return c.send(appendCommand(nil, "PONG", data[2:]))
}

func (c *conn) ping(t time.Time) error {
	c.pinged = t
	ttl := min(ttlHeartbeats*c.pings/(100*time.Millisecond), 1<<16-1)
	return c.send(appendCommand(nil, "PING", binary.BigEndian.AppendUint16(nil, uint16(ttl))))
}

func (c *conn) write(b []byte) error {
	if err := c.SetWriteDeadline(now().Add(writeTime)); err != nil {
		return err
	}
	_, err := c.Conn.Write(b)
	return err
}

// Read waits for bytes, sends PINGs meanwhile, and fails when the peer is silent
// for too long or a message takes too long. The time between two calls is not
// the peer's.
func (c *conn) Read(p []byte) (int, error) {
	entered := now()
	c.notePartial(entered)
	limit, why := c.limit(entered)
	for t := entered; ; t = now() {
		until := limit
		if c.pings > 0 {
			if t.Sub(c.pinged) >= c.pings {
				if err := c.ping(t); err != nil {
					return 0, err
				}
			}
			until = earlier(until, c.pinged.Add(c.pings))
		}
		if err := c.SetReadDeadline(until); err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(p)
		switch {
		case n > 0:
			return n, nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		case !limit.IsZero() && !now().Before(limit):
			return 0, why
		}
	}
}

func (c *conn) notePartial(t time.Time) {
	switch {
	case !c.in.partial():
		c.partial = time.Time{}
	case c.partial.IsZero() || c.partially != c.in.messages:
		c.partial, c.partially = t, c.in.messages
	}
}

// limit is until when a Read may last, the zero time for ever, and the error when
// it does.
func (c *conn) limit(entered time.Time) (limit time.Time, why error) {
	limit, why = c.deadline, c.overdue
	if c.silence > 0 {
		if end := entered.Add(c.silence); limit.IsZero() || end.Before(limit) {
			limit, why = end, errSilent
		}
	}
	if !c.partial.IsZero() {
		if end := c.partial.Add(messageTime); limit.IsZero() || end.Before(limit) {
			limit, why = end, errSlow
		}
	}
	return limit, why
}

// earlier is the earlier of two times, of which the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// use shakes hands on a connection and hands it to work. It closes the connection
// when the context ends, and in any case before it returns; an error that comes
// of the end of the context is that.
func use(ctx context.Context, nc net.Conn, own socket, o Options, work func(*conn) error) error {
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	c, err := open(nc, own, o)
	if err == nil {
		defer c.in.close()
		err = work(c)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the peer closed the connection: %w", err)
	}
	return err
}
