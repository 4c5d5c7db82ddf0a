package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test with a real network waits for what must happen.
const patience = 2 * time.Minute

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// start runs what lasts until its context ends, and waits for it with the test.
func start(t *testing.T, run func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := Listen(t.Context(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// A recorder is a handler that writes down what it is told.
type recorder struct {
	onMessage func(Peer, [][]byte)

	mu     sync.Mutex
	events []string
	errs   []error
	peers  []Peer
}

func (r *recorder) note(err error, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

func (r *recorder) Connected(p Peer) {
	r.note(nil, "connected")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers = append(r.peers, p)
}

func (r *recorder) Message(p Peer, parts [][]byte) {
	if r.onMessage != nil {
		r.onMessage(p, parts)
		return
	}
	r.note(nil, "message %s", joined(parts))
}
func (r *recorder) Disconnected(_ Peer, err error) { r.note(err, "disconnected") }
func (r *recorder) Failed(_ string, err error)     { r.note(err, "failed") }

func (r *recorder) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *recorder) count(event string) (n int) {
	for _, e := range r.seen() {
		if strings.HasPrefix(e, event) {
			n++
		}
	}
	return n
}

// lastErr is the reason that was told last.
func (r *recorder) lastErr() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) == 0 {
		return errors.New("no error was told")
	}
	return r.errs[len(r.errs)-1]
}

func joined(parts [][]byte) string {
	var words []string
	for _, p := range parts {
		words = append(words, string(p))
	}
	return strings.Join(words, "|")
}

func split(s string) (parts [][]byte) {
	for word := range strings.SplitSeq(s, "|") {
		parts = append(parts, []byte(word))
	}
	return parts
}
