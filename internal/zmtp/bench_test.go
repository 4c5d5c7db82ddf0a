package zmtp

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
)

// counter is a handler that counts messages to a number.
type counter struct {
	recorder
	want int64
	got  atomic.Int64
	done chan struct{}
}

func (c *counter) Message(Peer, [][]byte) {
	if c.got.Add(1) == c.want {
		close(c.done)
	}
}

var benchSizes = []int{300, 2200}

func report(b *testing.B) { b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s") }

// BenchmarkSubscribe is one message over loopback, from a peer that costs next to
// nothing to a handler that does nothing.
func BenchmarkSubscribe(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			l, err := Listen(b.Context(), "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			h := &counter{want: int64(b.N), done: make(chan struct{})}
			go func() {
				if nc, err := l.Accept(); err == nil {
					flood(b, nc, size)
				}
			}()
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			b.ResetTimer()
			go func() { ended <- Subscribe(ctx, l.Addr().String(), Options{}, h) }()
			<-h.done
			b.StopTimer()
			report(b)
			cancel()
			<-ended
		})
	}
}

// flood says b.N messages, a hundred at a time.
func flood(b *testing.B, nc net.Conn, size int) {
	defer nc.Close()
	if _, err := nc.Write(cat(hello(1), ready("PUB"))); err != nil {
		b.Error(err)
		return
	}
	one := appendMessage(nil, [][]byte{nil, make([]byte, 8), make([]byte, size)})
	var hundred []byte
	for range 100 {
		hundred = append(hundred, one...)
	}
	for left := b.N; left > 0; left -= 100 {
		if _, err := nc.Write(hundred[:min(left, 100)*len(one)]); err != nil {
			b.Error(err)
			return
		}
	}
	_, _ = io.Copy(io.Discard, nc) // until the subscriber hangs up
}

// BenchmarkPublish is one message from our publisher to our subscriber over
// loopback, both of which this measures.
func BenchmarkPublish(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			l, err := Listen(b.Context(), "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			p := NewPublisher(0, Options{})
			h := &counter{want: int64(b.N), done: make(chan struct{})}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error)
			go func() { ended <- p.Serve(ctx, l) }()
			go func() { ended <- Subscribe(ctx, l.Addr().String(), Options{}, h) }()
			for p.Stats().Subscribers == 0 {
				runtime.Gosched()
			}
			seq, payload := make([]byte, 8), make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			b.ResetTimer()
			for i := range int64(b.N) {
				for i-h.got.Load() >= highWater/2 { // it would drop them
					runtime.Gosched()
				}
				binary.BigEndian.PutUint64(seq, uint64(i))
				p.Publish(nil, seq, payload)
			}
			<-h.done
			b.StopTimer()
			report(b)
			cancel()
			<-ended
			<-ended
			if n := p.Stats().Dropped; n != 0 {
				b.Errorf("%d messages were dropped", n)
			}
		})
	}
}
