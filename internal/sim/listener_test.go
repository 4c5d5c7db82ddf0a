package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// A root is what blocks of other requests are told apart by.
type root struct{ adapter, saltHash string }

// A listener is a subscriber, and what it knows of a cache from batches alone.
type listener struct {
	mu      sync.Mutex
	decoder kvevent.Decoder
	copies  map[uint64]int
	roots   map[uint64]root
	seqs    []uint64
	topics  map[string]bool
	last    time.Time // of the last batch
	wrong   []error
}

func newListener() *listener {
	return &listener{copies: map[uint64]int{}, roots: map[uint64]root{}, topics: map[string]bool{}}
}

func (*listener) Connected(zmtp.Peer)           {}
func (*listener) Disconnected(zmtp.Peer, error) {}
func (*listener) Failed(string, error)          {}

func (l *listener) Message(_ zmtp.Peer, parts [][]byte) {
	m, err := kvevent.ParseLive(parts)
	l.take(m, err)
}

func (l *listener) take(m kvevent.Message, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch, decoded := l.decoder.Decode(m.Payload)
	if err := errors.Join(err, decoded); err != nil {
		l.wrong = append(l.wrong, err)
		return
	}
	l.seqs = append(l.seqs, m.Seq)
	l.topics[string(m.Topic)] = true
	l.last = batch.At
	for _, e := range batch.Events {
		if err := l.apply(e); err != nil {
			l.wrong = append(l.wrong, fmt.Errorf("batch %d: %w", m.Seq, err))
		}
	}
}

func (l *listener) apply(e kvevent.Event) error {
	switch {
	case e.Kind == kvevent.Cleared:
		clear(l.copies)
	case e.Kind == kvevent.Removed && len(e.Hashes) == 1:
		if l.copies[e.Hashes[0]]--; l.copies[e.Hashes[0]] <= 0 {
			delete(l.copies, e.Hashes[0])
		}
	case e.Kind == kvevent.Stored && e.Complete() && e.BlockSize == vllm.TokensPerBlock:
		of := root{e.LoRA, e.SaltHash}
		if e.HasParent {
			if l.copies[e.Parent] == 0 {
				return fmt.Errorf("the parent %x is not stored", e.Parent)
			}
			of = l.roots[e.Parent]
		}
		for _, h := range e.Hashes {
			l.copies[h]++
			l.roots[h] = of
		}
	default:
		return fmt.Errorf("%s of %d hashes and %d tokens", e.Kind, len(e.Hashes), len(e.Tokens))
	}
	return nil
}

// holds is what the cache has, by what was heard.
func (l *listener) holds() map[uint64]root {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := map[uint64]root{}
	for h := range l.copies {
		held[h] = l.roots[h]
	}
	return held
}

func (l *listener) heard() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seqs)
}

// gaps counts the numbers that are missing, from 0 on.
func (l *listener) gaps() (missing uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := uint64(0)
	for _, seq := range l.seqs {
		missing += seq - next
		next = seq + 1
	}
	return missing
}

// check fails with what was wrong.
func (l *listener) check(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.wrong...); err != nil {
		t.Fatal(err)
	}
}

// subscribe listens to a pod until the test ends, from now on.
func subscribe(t *testing.T, f *Fleet, pod int) *listener {
	t.Helper()
	l := newListener()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- zmtp.Subscribe(ctx, f.Pods()[pod].Events, zmtp.Options{Topic: "kv@"}, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Subscribe: %v", err)
		}
	})
	subscribed(t, f, pod)
	return l
}

func subscribed(t *testing.T, f *Fleet, pod int) {
	t.Helper()
	until(t, "the subscriber is known", func() bool {
		return f.pods[pod].server().events.publisher.Stats().Subscribers == 1
	})
}

// replayed asks a pod for its batches.
func replayed(t *testing.T, p PodInfo, from uint64) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l := newListener()
	for frames, err := range zmtp.Request(ctx, p.Replay, zmtp.Options{}, kvevent.ReplayRequest(from)...) {
		if err != nil {
			t.Fatal(err)
		}
		m, end, err := kvevent.ParseReplay(frames)
		if end {
			break
		}
		l.take(m, err)
	}
	return l
}

// caught waits until all that a pod has published was heard.
func caught(t *testing.T, f *Fleet, l *listener) {
	t.Helper()
	until(t, "all batches have come", func() bool {
		p := f.Pods()[0]
		return uint64(l.heard()) == p.Batches-p.BatchesLost
	})
	l.check(t)
}

// cacheOf is what a pod can find, by its own books.
func cacheOf(p *pod) map[uint64]root {
	s := p.server()
	s.mu.Lock()
	defer s.mu.Unlock()
	held := map[uint64]root{}
	for _, b := range s.engine.Changes(true).Stored {
		held[vllm.BlockID(b.Hash)] = root{b.Root.Adapter, b.Root.SaltHash}
	}
	return held
}
