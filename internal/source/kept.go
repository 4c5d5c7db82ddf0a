package source

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

// maxKept bounds what is kept of a text that can be read only once, packed: some
// millions of decisions over a few pods.
const maxKept = 256 << 20

// kept holds the decisions of a text that can be read only once, packed, for a
// second reading, and nothing else of the text. A nil one keeps nothing.
type kept struct {
	packed bytes.Buffer
	w      *zstd.Encoder
	full   bool
}

func newKept() (*kept, error) {
	k := new(kept)
	w, err := zstd.NewWriter(&k.packed, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("keep decisions: %w", err)
	}
	k.w = w
	return k, nil
}

// line keeps a decision as it stands there.
func (k *kept) line(text []byte) error {
	if k == nil {
		return nil
	}
	if k.full = k.full || k.packed.Len() > maxKept; k.full {
		return nil
	}
	_, err := k.w.Write(append(bytes.TrimSpace(text), '\n'))
	return err
}

// record keeps a decision that a log tells.
func (k *kept) record(rec *explain.Record) error {
	if k == nil || k.full {
		return nil
	}
	var line bytes.Buffer
	if err := record.Encode(&line, rec); err != nil {
		return err
	}
	return k.line(line.Bytes())
}

// reader reads them again; nothing can be added from then on.
func (k *kept) reader() (io.Reader, error) {
	if err := k.w.Close(); err != nil {
		return nil, fmt.Errorf("keep decisions: %w", err)
	}
	return bytes.NewReader(k.packed.Bytes()), nil
}
