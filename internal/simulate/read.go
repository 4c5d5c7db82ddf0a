package simulate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Read reads a trace: JSON Lines in Mooncake's format, or CSV. name is what it is
// called in errors and reports; limit is how many requests are wanted, 0 for all.
func Read(name string, r io.Reader, limit int) (*Trace, error) {
	c := collector{limit: limit}
	c.trace.Name = name
	in := bufio.NewReaderSize(r, 1<<16)
	begin, err := in.Peek(1 << 12)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if bytes.HasPrefix(begin, byteOrderMark) {
		begin = begin[len(byteOrderMark):]
		_, _ = in.Discard(len(byteOrderMark)) // they are buffered
	}
	read := readCSV
	if bytes.HasPrefix(bytes.TrimSpace(begin), []byte("{")) {
		read = readMooncake
	}
	if err := read(in, &c); err != nil && !errors.Is(err, errFull) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t, err := c.finish()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}
