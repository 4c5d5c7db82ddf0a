package zmtp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

const (
	// handshakeBuffer suffices for an honest handshake.
	handshakeBuffer = 512
	// readBuffer is what a connection reads with, unless a message needs more.
	readBuffer = 64 << 10
	// keptBuffer is the largest buffer that is kept for the next message.
	keptBuffer = 1 << 20
	// maxCommand is the size of the largest command. Honest ones are shorter than
	// a topic and 16 bytes.
	maxCommand = 16 << 10
	// maxHandshake is a command with its header.
	maxHandshake = maxCommand + 9
)

// Limits bounds what one connection may make this side hold. Zero fields mean the
// defaults.
type Limits struct {
	// Bytes is the largest message as it is on the wire, all parts with their
	// headers; by default 64 MiB. A frame, being part of a message, is bounded by
	// it too.
	Bytes int
	// Parts is the largest number of parts of a message; by default 64.
	Parts int
	// Budget, if there is one, is shared with other connections.
	Budget *Budget
}

func (l Limits) orDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = 64 << 20
	}
	if l.Parts == 0 {
		l.Parts = 64
	}
	return l
}

// A Budget bounds what the buffers of many connections hold together beyond the
// 64 KiB that each has. A connection that would exceed it is ended with
// [ErrLimit].
type Budget struct{ left atomic.Int64 }

// NewBudget makes a budget of a number of bytes.
func NewBudget(bytes int) *Budget {
	b := &Budget{}
	b.left.Store(int64(bytes))
	return b
}

func (b *Budget) take(n int) bool {
	if b == nil {
		return true
	}
	if b.left.Add(-int64(n)) < 0 {
		b.left.Add(int64(n))
		return false
	}
	return true
}

func (b *Budget) give(n int) {
	if b != nil {
		b.left.Add(int64(n))
	}
}

// A reader cuts a stream into messages and commands, in one buffer that they are
// handed out of.
type reader struct {
	src    io.Reader
	limits Limits

	buf       []byte
	start     int // of the message in progress
	pos       int // of the next frame
	end       int // of what was read
	marks     []mark
	parts     [][]byte
	handedOut bool   // the message in progress was, and is over with the next call
	messages  uint64 // how many were handed out
	borrowed  int    // of the budget
}

// A mark is where a part of the message in progress is, from its start.
type mark struct{ from, to int }

func newReader(src io.Reader, limits Limits) *reader {
	return &reader{src: src, limits: limits, buf: make([]byte, handshakeBuffer)}
}

// expect sets other limits, for all that comes after the handshake.
func (r *reader) expect(limits Limits) {
	r.limits = limits
	r.release()
	r.move(readBuffer)
}

// next waits for a whole message, or for a command, which may come between the
// frames of a message: libzmq's heartbeats do. One of the two is not nil. Both are
// good until the next call.
func (r *reader) next() (message [][]byte, command []byte, err error) {
	r.release()
	for {
		flags, m, err := r.frame()
		switch {
		case err != nil:
			return nil, nil, err
		case flags&flagCommand != 0:
			return nil, r.buf[r.start+m.from : r.start+m.to], nil
		case len(r.marks) == r.limits.Parts:
			return nil, nil, fmt.Errorf("%w: a message of more than %d parts", ErrLimit, r.limits.Parts)
		}
		r.marks = append(r.marks, m)
		if flags&flagMore == 0 {
			return r.handOut(), nil, nil
		}
	}
}

func (r *reader) handOut() [][]byte {
	r.parts = r.parts[:0]
	for _, m := range r.marks {
		from, to := r.start+m.from, r.start+m.to
		r.parts = append(r.parts, r.buf[from:to:to])
	}
	r.handedOut = true
	r.messages++
	return r.parts
}

// release lets go of what was handed out. A command inside of a message stays
// with it.
func (r *reader) release() {
	if r.handedOut {
		r.handedOut, r.marks = false, r.marks[:0]
	}
	if len(r.marks) > 0 {
		return
	}
	r.start = r.pos
	if r.start == r.end {
		r.start, r.pos, r.end = 0, 0, 0
	}
	if len(r.buf) > keptBuffer && r.end-r.start <= readBuffer {
		r.move(readBuffer)
	}
}

// frame waits for a whole frame.
func (r *reader) frame() (flags byte, m mark, err error) {
	if err := r.await(2); err != nil {
		return 0, mark{}, err
	}
	head := 2
	if flags = r.buf[r.pos]; flags&^flagsKnown != 0 || flags&(flagCommand|flagMore) == flagCommand|flagMore {
		return 0, mark{}, fmt.Errorf("%w: a frame with the flags %#x", ErrProtocol, flags)
	}
	size := uint64(r.buf[r.pos+1])
	if flags&flagLong != 0 {
		head = 9
		if err := r.await(head); err != nil {
			return 0, mark{}, err
		}
		size = binary.BigEndian.Uint64(r.buf[r.pos+1:])
	}
	limit := r.limits.Bytes
	if flags&flagCommand != 0 {
		limit = min(limit, maxCommand)
	}
	if size > uint64(limit) {
		return 0, mark{}, fmt.Errorf("%w: a frame of %d bytes, more than %d", ErrLimit, size, limit)
	}
	if err := r.await(head + int(size)); err != nil {
		return 0, mark{}, err
	}
	from := r.pos - r.start + head
	r.pos += head + int(size)
	return flags, mark{from, from + int(size)}, nil
}

// take waits for n bytes that are no frame.
func (r *reader) take(n int) ([]byte, error) {
	if err := r.await(n); err != nil {
		return nil, err
	}
	r.pos += n
	return r.buf[r.pos-n : r.pos], nil
}

// await reads until n bytes from pos on are there.
func (r *reader) await(n int) error {
	if whole := r.pos - r.start + n; whole > r.limits.Bytes {
		return fmt.Errorf("%w: a message of %d bytes or more, more than %d", ErrLimit, whole, r.limits.Bytes)
	}
	for r.end-r.pos < n {
		if err := r.room(); err != nil {
			return err
		}
		read, err := r.src.Read(r.buf[r.end:])
		r.end += read
		switch {
		case read > 0: // an error, if any, will be back
		case err == nil:
			return io.ErrNoProgress
		case errors.Is(err, io.EOF) && r.partial():
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
	return nil
}

// partial is whether a message, or its first byte, is there and not all of it.
func (r *reader) partial() bool { return !r.handedOut && r.end > r.start }

// room makes place for at least one byte more. What is in the buffer is at most a
// message in progress, which await has found to be allowed.
func (r *reader) room() error {
	if r.end < len(r.buf) {
		return nil
	}
	size := len(r.buf)
	if r.start == 0 {
		size = min(2*size, max(r.limits.Bytes, readBuffer))
	}
	if over := size - readBuffer - r.borrowed; over > 0 && !r.limits.Budget.take(over) {
		return fmt.Errorf("%w: no memory left for a message of more than %d bytes, with those of the other connections",
			ErrLimit, len(r.buf))
	} else if over > 0 {
		r.borrowed += over
	}
	r.move(size)
	return nil
}

// move brings what is not yet done to the front of a buffer of a size, and keeps
// the buffer if it has that size already.
func (r *reader) move(size int) {
	to := r.buf
	if len(to) != size {
		to = make([]byte, size)
	}
	copy(to, r.buf[r.start:r.end])
	r.buf, r.pos, r.end, r.start = to, r.pos-r.start, r.end-r.start, 0
	if over := max(0, size-readBuffer); over < r.borrowed {
		r.limits.Budget.give(r.borrowed - over)
		r.borrowed = over
	}
}

// close gives back what the buffer took of the budget.
func (r *reader) close() {
	r.limits.Budget.give(r.borrowed)
	r.borrowed = 0
}
