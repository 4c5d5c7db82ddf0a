package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/zmtp/zmqtest"
)

// A libzmq is a peer of testdata/peer.py.
type libzmq struct {
	port  string
	lines chan string
	kill  func()
}

// libzmqPeer starts a peer and waits until it is ready. It ends with the test.
func libzmqPeer(t *testing.T, args ...string) *libzmq {
	t.Helper()
	peer := zmqtest.Start(t, "testdata/peer.py", args...)
	z := &libzmq{lines: make(chan string, 10_000)}
	var read sync.WaitGroup
	read.Go(func() {
		defer close(z.lines)
		s := bufio.NewScanner(peer.Out)
		for s.Buffer(nil, 1<<20); s.Scan(); {
			z.lines <- s.Text()
		}
	})
	z.kill = sync.OnceFunc(func() {
		peer.Kill()
		for range z.lines { // a reader whose channel is full
		}
		read.Wait()
	})
	t.Cleanup(z.kill)
	z.port = strings.TrimPrefix(z.line(t), "ready ")
	return z
}

// line is the next one.
func (z *libzmq) line(t *testing.T) string {
	t.Helper()
	select {
	case l, ok := <-z.lines:
		if !ok {
			t.Fatal("the peer ended")
		}
		return l
	case <-time.After(patience):
		t.Fatal("the peer says nothing")
	}
	return ""
}

// numbers is a handler that writes down the numbers of messages as a publisher of
// peer.py makes them, a slice for each connection.
type numbers struct {
	recorder
	size int // of the payloads

	mu   sync.Mutex
	seqs [][]uint64
	bad  []string
	slow time.Duration
}

func (n *numbers) Connected(p Peer) {
	n.recorder.Connected(p)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seqs = append(n.seqs, nil)
}

func (n *numbers) Message(_ Peer, parts [][]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(parts) != 3 || len(parts[1]) != 8 || len(parts[2]) != n.size {
		n.bad = append(n.bad, fmt.Sprintf("%q", parts))
		return
	}
	last := len(n.seqs) - 1
	n.seqs[last] = append(n.seqs[last], binary.BigEndian.Uint64(parts[1]))
	if n.slow > 0 {
		time.Sleep(n.slow)
	}
}

// of is what came on a connection, counted from 0.
func (n *numbers) of(connection int) []uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if connection >= len(n.seqs) {
		return nil
	}
	return slices.Clone(n.seqs[connection])
}

// consecutive fails the test if a number is missing after the first.
func consecutive(t *testing.T, seqs []uint64, step uint64) {
	t.Helper()
	for i := 1; i < len(seqs); i++ {
		if seqs[i] != seqs[i-1]+step {
			t.Fatalf("%d follows %d", seqs[i], seqs[i-1])
		}
	}
}

func subscribeTo(t *testing.T, port, topic string, h Handler) (stop func()) {
	t.Helper()
	return start(t, func(ctx context.Context) error {
		return Subscribe(ctx, "tcp://127.0.0.1:"+port, Options{Topic: topic}, h)
	})
}

// tapped counts the PONGs that are sent on its connections.
type tapped struct {
	net.Listener
	pongs atomic.Int64
}

type tappedConn struct {
	net.Conn
	l *tapped
}

func (l *tapped) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tappedConn{nc, l}, nil
}

func (c tappedConn) Write(b []byte) (int, error) {
	c.l.pongs.Add(int64(bytes.Count(b, []byte("PONG"))))
	return c.Conn.Write(b)
}

func portOf(l net.Listener) string {
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func unhex(t *testing.T, line string) string {
	t.Helper()
	var words []string
	for word := range strings.SplitSeq(line, "|") {
		b, err := hex.DecodeString(word)
		if err != nil {
			t.Fatalf("the peer says %.100q", line)
		}
		words = append(words, string(b))
	}
	return strings.Join(words, "|")
}
