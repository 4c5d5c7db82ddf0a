package main

import (
	"context"
	"sync"

	"github.com/eppctl/eppctl/internal/clock"
)

// held is what is printed of a picker that holds unfinished bodies, in bytes.
type held struct {
	Streams   int `json:"streams"`
	BodyBytes int `json:"bodyBytes"`
	HalfBytes int `json:"halfBytes"` // that were sent of each

	// Refused streams were answered by the picker itself. Stalled ones could not
	// send all of their half: the picker stopped reading.
	Refused int    `json:"refused"`
	Stalled int    `json:"stalled"`
	First   string `json:"firstRefusal,omitempty"`

	HeldBytes int64 `json:"heldBytes"` // of the streams that were neither

	Before  *usage `json:"before,omitempty"`
	Holding *usage `json:"holding,omitempty"`
	After   *usage `json:"after,omitempty"` // the streams were cancelled
}

// holdBodies opens streams, sends half of the body on each, looks at the picker's
// memory, and cancels them.
func holdBodies(ctx context.Context, o *loadOptions) (*held, error) {
	l, err := newLoad(o)
	if err != nil {
		return nil, err
	}
	defer l.pickers.close()
	if err := l.waitReady(ctx); err != nil {
		return nil, err
	}
	out := &held{Streams: o.hold, BodyBytes: o.work.bytes, HalfBytes: o.work.bytes / 2}
	if out.Before, err = l.look(ctx); err != nil {
		return nil, err
	}
	if err := l.hold(ctx, out); err != nil {
		return nil, err
	}
	out.After, err = l.look(ctx)
	return out, err
}

// look measures the picker after the time for which streams are held.
func (l *load) look(ctx context.Context) (*usage, error) {
	if err := (clock.Wall{}).Sleep(ctx, l.o.holdFor); err != nil {
		return nil, err
	}
	u, err := l.picker.stop(ctx, 1)
	if u != nil {
		u.CPUMsPerRequest = nil // there are no requests
	}
	return u, err
}

// hold opens the streams, counts what becomes of them, and cancels them.
func (l *load) hold(ctx context.Context, out *held) (err error) {
	streams, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex // of out, and of sent
	sent := 0
	for i := range out.Streams {
		all.Go(func() {
			wholly := false
			refusal := l.holdOne(streams, i, out.HalfBytes, func() {
				mu.Lock()
				defer mu.Unlock()
				wholly = true
				sent++
			})
			mu.Lock()
			defer mu.Unlock()
			if streams.Err() != nil {
				return // cancelled here
			}
			if wholly {
				sent--
			}
			if out.Refused++; out.First == "" {
				out.First = refusal.Error()
			}
		})
	}
	out.Holding, err = l.look(ctx)
	mu.Lock()
	out.Stalled = out.Streams - out.Refused - sent
	out.HeldBytes = int64(sent) * int64(out.HalfBytes)
	cancel()
	mu.Unlock()
	all.Wait()
	return err
}

// holdOne sends half of a body, says so, and waits for the stream's end, whose
// reason it returns.
func (l *load) holdOne(ctx context.Context, stream, half int, sent func()) error {
	c := l.calls[stream%len(l.calls)]
	s, err := l.pickers.of(stream).Process(ctx)
	if err != nil {
		return err
	}
	x := &exchange{stream: s, call: c}
	pieces := requestBody(c.body[:half], int(l.o.piece))
	if err := x.send(requestHeaders(len(c.body))); err != nil {
		return err
	}
	if err := x.send(pieces[:len(pieces)-1]...); err != nil {
		return err
	}
	sent()
	_, err = x.reply()
	return err
}
