package zmtp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// items reads a stream to its end.
func items(r *reader) (all []string, err error) {
	for {
		parts, command, err := r.next()
		switch {
		case err != nil:
			return all, err
		case parts != nil:
			all = append(all, joined(parts))
		default:
			all = append(all, "/"+string(command[1:]))
		}
	}
}

func readerOf(src io.Reader, limits Limits) *reader {
	r := newReader(src, limits.orDefaults())
	r.move(readBuffer)
	return r
}

func TestReaderCutsStreams(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	ping := appendCommand(nil, "PING", nil)
	cases := []struct {
		name   string
		stream []byte
		want   []string
	}{
		{"one part", message("a"), []string{"a"}},
		{"empty parts", message("||"), []string{"||"}},
		{"an empty message", message(""), []string{""}},
		{"three parts", cat(message("t|seq|payload"), message("|s|p")), []string{"t|seq|payload", "|s|p"}},
		{"255 and 256 bytes", message(long[:255] + "|" + long[:256]), []string{long[:255] + "|" + long[:256]}},
		{"a small size in the long form", []byte("\x02\x00\x00\x00\x00\x00\x00\x00\x01a"), []string{"a"}},
		{"longer than the buffer", cat(message("a|"+long+"|b"), message("c")), []string{"a|" + long + "|b", "c"}},
		{"a command between messages", cat(message("a"), ping, message("b")), []string{"a", "/PING", "b"}},
		{
			"commands inside of a message",
			cat([]byte("\x01\x01a"), ping, []byte("\x01\x00"), ping, ping, []byte("\x00\x01b")),
			[]string{"/PING", "/PING", "/PING", "a||b"},
		},
	}
	for _, c := range cases {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader,
		} {
			t.Run(c.name+"/"+how, func(t *testing.T) {
				got, err := items(readerOf(wrap(bytes.NewReader(c.stream)), Limits{}))
				if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, io.EOF) {
					t.Errorf("error %v, items (-want +got):\n%s", err, diff)
				}
			})
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	limits := Limits{Bytes: 100, Parts: 3}
	cases := []struct {
		name   string
		stream string
		err    error
		says   string
	}{
		{"2^62 bytes", "\x02\x40\x00\x00\x00\x00\x00\x00\x00", ErrLimit, "a frame of 4611686018427387904 bytes, more than 100"},
		{"2^64-1 bytes", "\x02\xff\xff\xff\xff\xff\xff\xff\xff", ErrLimit, "18446744073709551615"},
		{"a command of 2^62 bytes", "\x06\x40\x00\x00\x00\x00\x00\x00\x00", ErrLimit, "4611686018427387904"},
		{"one byte too much", "\x00\x63", ErrLimit, "101 bytes or more, more than 100"},
		{"too much in many parts", "\x01\x20" + strings.Repeat("a", 32) + "\x01\x20" + strings.Repeat("a", 32) + "\x00\x20", ErrLimit, "102 bytes"},
		{"endless tiny parts", strings.Repeat("\x01\x00", 1000), ErrLimit, "more than 3 parts"},
		{"endless commands inside of a message", "\x01\x00" + strings.Repeat("\x04\x02\x01X", 1000), ErrLimit, "more than 100"},
		{"an unknown flag", "\x08\x00", ErrProtocol, "0x8"},
		{"a command with more to come", "\x05\x02\x01X", ErrProtocol, "0x5"},
		{"half a header", "\x02\x00", io.ErrUnexpectedEOF, ""},
		{"half a part", "\x00\x05abc", io.ErrUnexpectedEOF, ""},
		{"half a message", "\x01\x01a", io.ErrUnexpectedEOF, ""},
		{"nothing", "", io.EOF, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := readerOf(strings.NewReader(c.stream), limits)
			_, err := items(r)
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q, want a %v that says %q", err, c.err, c.says)
			}
			if len(r.buf) != readBuffer {
				t.Errorf("the buffer has %d bytes, want %d", len(r.buf), readBuffer)
			}
		})
	}
}

// A promise costs the peer nothing: memory must come with the bytes.
func TestReaderGrowsWithWhatCame(t *testing.T) {
	size := []byte("\x02\x00\x00\x00\x00\x03\x00\x00\x00") // 48 MiB
	r := readerOf(io.MultiReader(bytes.NewReader(size), bytes.NewReader(make([]byte, 100_000))), Limits{})
	if _, err := items(r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if len(r.buf) > 256<<10 {
		t.Errorf("100 kB of a promised 48 MiB made a buffer of %d bytes", len(r.buf))
	}
}

func TestReaderGivesBackALargeBuffer(t *testing.T) {
	budget := NewBudget(8 << 20)
	large := appendMessage(nil, [][]byte{make([]byte, 5<<20)})
	src := io.MultiReader(bytes.NewReader(large), bytes.NewReader(message("small")))
	r := readerOf(src, Limits{Budget: budget})
	if _, _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	if left := budget.left.Load(); left > 3<<20 {
		t.Errorf("5 MiB are held and %d of 8 MiB are left", left)
	}
	if _, _, err := r.next(); err != nil {
		t.Fatal(err)
	}
	if len(r.buf) != readBuffer || budget.left.Load() != 8<<20 {
		t.Errorf("after a small message the buffer has %d bytes and the budget %d", len(r.buf), budget.left.Load())
	}
}

func TestBudgetIsShared(t *testing.T) {
	const limit = 4 << 20
	budget := NewBudget(limit)
	half := appendMessage(nil, [][]byte{make([]byte, 3<<20)})[:2<<20]
	var held, refused int
	var readers []*reader
	for range 8 {
		r := readerOf(bytes.NewReader(half), Limits{Budget: budget})
		readers = append(readers, r)
		if _, err := items(r); errors.Is(err, ErrLimit) {
			refused++
		} else {
			held++
		}
	}
	if held == 0 || refused == 0 || budget.left.Load() < 0 {
		t.Errorf("%d readers had room, %d not, %d bytes are left", held, refused, budget.left.Load())
	}
	for _, r := range readers {
		r.close()
	}
	if left := budget.left.Load(); left != limit {
		t.Errorf("all readers are closed and %d of %d bytes are left", left, limit)
	}
}

// Whatever the sizes of messages and of reads, what comes out is what went in.
func TestReaderRandomStreams(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var stream []byte
		var want []string
		for range 1 + rng.IntN(20) {
			parts := make([][]byte, 1+rng.IntN(4))
			for i := range parts {
				parts[i] = bytes.Repeat([]byte{byte('a' + i)}, rng.IntN(1<<rng.IntN(18)))
			}
			stream, want = appendMessage(stream, parts), append(want, joined(parts))
		}
		got, err := items(readerOf(&bites{data: stream, rng: rng}, Limits{}))
		if !slices.Equal(want, got) || !errors.Is(err, io.EOF) {
			t.Fatalf("seed %d: %d messages became %d others, %v", seed, len(want), len(got), err)
		}
	}
}

// bites reads in random pieces.
type bites struct {
	data []byte
	rng  *rand.Rand
}

func (b *bites) Read(p []byte) (int, error) {
	if len(b.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:1+b.rng.IntN(len(p))], b.data)
	b.data = b.data[n:]
	return n, nil
}

func TestReaderDoesNotAllocate(t *testing.T) {
	for _, size := range []int{300, 2200, 60_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r := readerOf(&endless{data: appendMessage(nil, [][]byte{{}, make([]byte, 8), make([]byte, size)})}, Limits{})
			for range 1000 { // the buffer finds its size
				if _, _, err := r.next(); err != nil {
					t.Fatal(err)
				}
			}
			if n := testing.AllocsPerRun(1000, func() { _, _, _ = r.next() }); n != 0 {
				t.Errorf("%v allocations a message", n)
			}
		})
	}
}

// endless repeats the same bytes.
type endless struct {
	data []byte
	at   int
}

func (e *endless) Read(p []byte) (n int, _ error) {
	for n < len(p) {
		m := copy(p[n:], e.data[e.at:])
		n, e.at = n+m, (e.at+m)%len(e.data)
	}
	return n, nil
}
