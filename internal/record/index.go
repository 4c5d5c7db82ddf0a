package record

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"time"
)

// IndexSuffix ends the name of an index: it stands beside the file that it is of.
const IndexSuffix = ".idx"

// An index says where a file's decisions stand, so that one of a million is found
// without reading the rest. It is made of a file that is closed, and never
// changed. What it holds, with all numbers little endian:
//
//	header · blocks (offset, oldest, newest: 3 × 8) · entries (text u32, length u32, offset u64) · texts
//
// A block is [blockLines] lines. Decisions stand in the order of their completion;
// a block's oldest and newest arrival say whether a time may be in it. Entries are
// the request and decision IDs in the order of their bytes, so that an ID or a
// prefix of it is found by halving. An index whose checksum is wrong, or that is
// of another file than the one it stands beside, counts as none.
const (
	indexMagic  = "eppidx1\n"
	idxFileSize = 8  // i64, of the file that it is of
	idxFileSum  = 16 // u32, see sumOf
	idxLines    = 20 // u32, decisions
	idxBlocks   = 24 // u32
	idxEntries  = 28 // u32
	idxSum      = 32 // u32, of what follows it
	idxHeader   = 36

	blockSize  = 24
	entrySize  = 16
	blockLines = 64
	// maxIndexed is the largest file that is indexed: making the index takes about
	// a fifteenth of it in memory.
	maxIndexed = 2 << 30
	// sumLength is how much of a file's beginning and end tells it from another.
	sumLength = 4 << 10
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// index is a file's index in memory.
type index struct {
	decisions              int
	blocks, entries, texts []byte
	size                   int64
}

// block is a stretch of the file and when its decisions arrived.
type block struct {
	from, to       int64
	oldest, newest int64 // nanoseconds since 1970
}

func (x *index) block(i int) block {
	b := block{to: x.size}
	cell := x.blocks[blockSize*i:]
	b.from, b.oldest, b.newest = int64(le.Uint64(cell)), int64(le.Uint64(cell[8:])), int64(le.Uint64(cell[16:]))
	if next := blockSize * (i + 1); next < len(x.blocks) {
		b.to = int64(le.Uint64(x.blocks[next:]))
	}
	return b
}

// span is the arrival of the oldest and the newest decision.
func (x *index) span() (oldest, newest time.Time) {
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range len(x.blocks) / blockSize {
		b := x.block(i)
		low, high = min(low, b.oldest), max(high, b.newest)
	}
	if low > high {
		return oldest, newest
	}
	return time.Unix(0, low).UTC(), time.Unix(0, high).UTC()
}

// stretches are the parts of the file that may hold a decision of that time, first
// to last, neighbours joined.
func (x *index) stretches(since, until time.Time) (out []block) {
	for i := range len(x.blocks) / blockSize {
		b := x.block(i)
		if !since.IsZero() && b.newest < since.UnixNano() || !until.IsZero() && b.oldest >= until.UnixNano() {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].to == b.from {
			out[last].to = b.to
			continue
		}
		out = append(out, b)
	}
	return out
}

// find returns where the lines of decisions begin whose request or decision ID
// begins with id, the last first.
func (x *index) find(id string) (offsets []int64) {
	n := len(x.entries) / entrySize
	for i := sort.Search(n, func(i int) bool { return x.id(i) >= id }); i < n && strings.HasPrefix(x.id(i), id); i++ {
		offsets = append(offsets, int64(le.Uint64(x.entries[entrySize*i+8:])))
	}
	slices.Sort(offsets)
	offsets = slices.Compact(offsets) // both of its IDs may begin so
	slices.Reverse(offsets)
	return offsets
}

func (x *index) id(i int) string {
	cell := x.entries[entrySize*i:]
	from, n := le.Uint32(cell), le.Uint32(cell[4:])
	return string(x.texts[from : from+n])
}

// readIndex reads the index of an open file, or returns nil when there is none
// that fits it.
func readIndex(file *os.File, size int64) *index {
	raw, err := os.ReadFile(file.Name() + IndexSuffix)
	if err != nil || len(raw) < idxHeader || string(raw[:idxFileSize]) != indexMagic {
		return nil
	}
	u32 := func(at int) int { return int(le.Uint32(raw[at:])) }
	sum, err := sumOf(file, size)
	blocks, entries, rest := blockSize*u32(idxBlocks), entrySize*u32(idxEntries), raw[idxHeader:]
	switch {
	case err != nil || sum != le.Uint32(raw[idxFileSum:]) || size != int64(le.Uint64(raw[idxFileSize:])),
		crc32.Checksum(rest, crcTable) != le.Uint32(raw[idxSum:]),
		len(rest) < blocks+entries:
		return nil
	}
	x := &index{decisions: u32(idxLines), blocks: rest[:blocks], entries: rest[blocks:][:entries], texts: rest[blocks+entries:], size: size}
	for i := range u32(idxEntries) {
		cell := x.entries[entrySize*i:]
		if int64(le.Uint32(cell))+int64(le.Uint32(cell[4:])) > int64(len(x.texts)) {
			return nil
		}
	}
	return x
}

// sumOf tells a file from another of the same size by its beginning and its end.
func sumOf(file io.ReaderAt, size int64) (uint32, error) {
	buf := make([]byte, min(sumLength, size))
	sum := uint32(0)
	for _, at := range []int64{0, size - int64(len(buf))} {
		if _, err := file.ReadAt(buf, at); err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read at %d: %w", at, err)
		}
		sum = crc32.Update(sum, crcTable, buf)
	}
	return sum, nil
}

// WriteIndex writes the index of a file of decisions beside it, in place of one
// that does not fit. It reads the file once, and does nothing when its index fits,
// or when it is larger than 2 GiB. The file must not grow meanwhile.
func WriteIndex(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("index records: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("index records: %w", err)
	}
	if info.Size() > maxIndexed || readIndex(file, info.Size()) != nil {
		return nil
	}
	sum, err := sumOf(file, info.Size())
	if err != nil {
		return fmt.Errorf("index %s: %w", name, err)
	}
	var m indexMaker
	if err := m.read(io.LimitReader(file, info.Size())); err != nil {
		return fmt.Errorf("index %s: %w", name, err)
	}
	return replaceFile(name+IndexSuffix, m.bytes(info.Size(), sum))
}

// replaceFile writes a file so that others see it whole or not at all.
func replaceFile(name string, content []byte) error {
	tmp := name + ".tmp"
	if err := os.WriteFile(tmp, content, 0o640); err != nil {
		return fmt.Errorf("write an index: %w", err)
	}
	if err := os.Rename(tmp, name); err != nil {
		return fmt.Errorf("write an index: %w", err)
	}
	return nil
}

// indexMaker collects what an index holds.
type indexMaker struct {
	blocks, texts []byte
	entries       []indexEntry
	decisions     int
	current       block
	lines         int // of current
}

type indexEntry struct {
	from, n uint32
	offset  int64
}

func (m *indexMaker) read(in io.Reader) error {
	lines := NewReader(in)
	for {
		line, err := lines.Line()
		if errors.Is(err, io.EOF) {
			m.endBlock()
			return nil
		}
		if _, bad := errors.AsType[*LineError](err); err != nil && !bad {
			return err
		}
		if m.lines == 0 {
			m.current = block{from: line.Offset, oldest: math.MaxInt64, newest: math.MinInt64}
		}
		if m.lines++; err == nil {
			m.add(line)
		}
		if m.lines == blockLines {
			m.endBlock()
		}
	}
}

// add notes a line's decision, if it is one.
func (m *indexMaker) add(line Line) {
	h, ok := peek(line.Text)
	if !ok || !line.Whole {
		rec, err := Decode(line)
		if err != nil {
			return
		}
		h = peeked{[]byte(rec.DecisionID), []byte(rec.RequestID), rec.Time}
	}
	m.decisions++
	at := h.time.UnixNano()
	m.current.oldest, m.current.newest = min(m.current.oldest, at), max(m.current.newest, at)
	for _, id := range [][]byte{h.decisionID, h.requestID} {
		m.entries = append(m.entries, indexEntry{uint32(len(m.texts)), uint32(len(id)), line.Offset})
		m.texts = append(m.texts, id...)
	}
}

func (m *indexMaker) endBlock() {
	if m.lines == 0 {
		return
	}
	for _, v := range []int64{m.current.from, m.current.oldest, m.current.newest} {
		m.blocks = binary.LittleEndian.AppendUint64(m.blocks, uint64(v))
	}
	m.lines = 0
}

func (m *indexMaker) bytes(size int64, sum uint32) []byte {
	text := func(e indexEntry) []byte { return m.texts[e.from : e.from+e.n] }
	slices.SortFunc(m.entries, func(a, b indexEntry) int {
		return cmp.Or(bytes.Compare(text(a), text(b)), cmp.Compare(a.offset, b.offset))
	})
	out := make([]byte, idxHeader, idxHeader+len(m.blocks)+entrySize*len(m.entries)+len(m.texts))
	copy(out, indexMagic)
	le.PutUint64(out[idxFileSize:], uint64(size))
	le.PutUint32(out[idxFileSum:], sum)
	le.PutUint32(out[idxLines:], uint32(m.decisions))
	le.PutUint32(out[idxBlocks:], uint32(len(m.blocks)/blockSize))
	le.PutUint32(out[idxEntries:], uint32(len(m.entries)))
	out = append(out, m.blocks...)
	for _, e := range m.entries {
		out = le.AppendUint32(out, e.from)
		out = le.AppendUint32(out, e.n)
		out = le.AppendUint64(out, uint64(e.offset))
	}
	out = append(out, m.texts...)
	le.PutUint32(out[idxSum:], crc32.Checksum(out[idxHeader:], crcTable))
	return out
}
