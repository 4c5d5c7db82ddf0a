package source

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds what a zstd stream may make us keep of what it said before:
// that of the levels up to 19, and of --long.
const maxWindow = 128 << 20

// Decompress reads a text that may be packed by gzip or zstd, which its first bytes
// tell. Nothing is unpacked ahead of being read, so that a bomb costs time alone.
func Decompress(in io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	magic, _ := buffered.Peek(4) // a shorter text is none of both
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		r, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("unpack gzip: %w", err)
		}
		return &unpacking{r, "gzip", func() { _ = r.Close() }}, nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		r, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("unpack zstd: %w", err)
		}
		return &unpacking{r, "zstd", r.Close}, nil
	}
	return io.NopCloser(buffered), nil
}

// unpacking names the packer in errors.
type unpacking struct {
	in    io.Reader
	how   string
	close func()
}

// Read implements [io.Reader].
func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // the very end, not an end inside
		err = fmt.Errorf("unpack %s: %w", u.how, err)
	}
	return n, err
}

// Close implements [io.Closer].
func (u *unpacking) Close() error { u.close(); return nil }
