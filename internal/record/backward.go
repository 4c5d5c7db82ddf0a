package record

import (
	"bytes"
	"fmt"
	"io"
)

// backward reads the lines of a file from the last to the first.
type backward struct {
	in  io.ReaderAt
	pos int64 // where buf begins in the file
	buf []byte
	end int // of the line that is next, in buf
	// start is where the line that was returned last begins in the file.
	start int64
	// started: a newline has been seen, so that lines from here on are whole.
	started bool
	tooLong bool // the line that buf ends in is skipped
	done    bool // the first line of the file was returned
}

// backwardChunk is how much is read at first; it doubles while a line goes on.
const backwardChunk = 256 << 10

func newBackward(in io.ReaderAt, size int64) *backward { return &backward{in: in, pos: size} }

// next returns the line before the last one returned, without its newline, or
// [io.EOF]. whole is false for a last line that no newline ends. A line longer
// than [MaxLine] comes as errLong once, and reading goes on behind it.
func (b *backward) next() (line []byte, whole bool, err error) {
	searched := b.end // buf[searched:end] holds no newline
	for {
		if i := bytes.LastIndexByte(b.buf[:searched], '\n'); i >= 0 {
			return b.take(i)
		}
		if b.pos == 0 {
			return b.last()
		}
		if b.end > MaxLine {
			b.tooLong, b.end = true, 0
		}
		n, err := b.more()
		if err != nil {
			return nil, false, err
		}
		searched = n
	}
}

// take returns the line that begins behind the newline at i.
func (b *backward) take(i int) ([]byte, bool, error) {
	line, whole, long := b.buf[i+1:b.end], b.started, b.tooLong
	b.start = b.pos + int64(i) + 1
	b.end, b.started, b.tooLong = i, true, false
	if long || len(line) > MaxLine {
		return nil, whole, errLong
	}
	return line, whole, nil
}

// last returns the first line of the file, and then [io.EOF].
func (b *backward) last() ([]byte, bool, error) {
	if b.done || (b.end == 0 && !b.tooLong && !b.started) {
		return nil, false, io.EOF
	}
	b.done, b.start = true, 0
	if b.tooLong || b.end > MaxLine {
		return nil, b.started, errLong
	}
	return b.buf[:b.end], b.started, nil
}

// more puts what stands before buf in front of it and returns how much it was.
func (b *backward) more() (int, error) {
	n := int(min(max(backwardChunk, int64(b.end)), b.pos))
	buf := make([]byte, n+b.end)
	copy(buf[n:], b.buf[:b.end])
	if _, err := b.in.ReadAt(buf[:n], b.pos-int64(n)); err != nil {
		return 0, fmt.Errorf("read backwards from %d: %w", b.pos, err)
	}
	b.pos -= int64(n)
	b.buf, b.end = buf, len(buf)
	return n, nil
}
