package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/eppctl/eppctl/internal/clock"
)

// Latencies are counted in nanoseconds from 1 µs to 10 min, to three digits.
const (
	lowestLatency  = int64(time.Microsecond)
	highestLatency = int64(10 * time.Minute)
	digits         = 3
)

// result is what is printed. Times are milliseconds, sizes bytes.
type result struct {
	Streams     int    `json:"streams"`
	Connections int    `json:"connections"`
	Requests    int    `json:"requests"`
	BodyBytes   int    `json:"bodyBytes"`
	Prompts     int    `json:"prompts"`
	Response    string `json:"response"`

	Seconds           float64     `json:"seconds"`
	RequestsPerSecond float64     `json:"requestsPerSecond"`
	HeaderReply       percentiles `json:"headerReplyMs"` // from the end of the body
	Exchange          percentiles `json:"exchangeMs"`    // the whole stream

	Errors        int    `json:"errors"`
	FirstError    string `json:"firstError,omitempty"`
	Endpoints     int    `json:"endpoints"` // that were picked
	BytesSent     int64  `json:"bytesSent"` // of bodies
	BytesReceived int64  `json:"bytesReceived"`

	Picker *usage `json:"picker,omitempty"`
	Client *usage `json:"client,omitempty"`
}

type percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func percentilesOf(h *hdrhistogram.Histogram) percentiles {
	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	return percentiles{
		P50: ms(h.ValueAtQuantile(50)), P95: ms(h.ValueAtQuantile(95)), P99: ms(h.ValueAtQuantile(99)), Max: ms(h.Max()),
	}
}

// seen is what came of the requests of a run.
type seen struct {
	mu           sync.Mutex
	decided      *hdrhistogram.Histogram
	whole        *hdrhistogram.Histogram
	endpoints    map[string]int
	errors       int
	first        string
	sent, gotten int64
	took         time.Duration
}

// maxEndpoints bounds the destinations that are told apart.
const maxEndpoints = 10_000

// run sends requests on all streams, each the next one when the last is complete.
func (l *load) run(ctx context.Context, requests int) (*seen, error) {
	out := &seen{
		decided:   hdrhistogram.New(lowestLatency, highestLatency, digits),
		whole:     hdrhistogram.New(lowestLatency, highestLatency, digits),
		endpoints: map[string]int{},
	}
	began := clock.Wall{}.Now()
	var next atomic.Int64
	var streams sync.WaitGroup
	for i := range l.o.streams {
		streams.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= requests || ctx.Err() != nil {
					return
				}
				x := &exchange{call: l.calls[n%len(l.calls)]}
				out.add(x, l.one(ctx, x, i))
			}
		})
	}
	streams.Wait()
	out.took = clock.Wall{}.Now().Sub(began)
	return out, context.Cause(ctx)
}

// one is a single request on the connection of a stream's worker.
func (l *load) one(ctx context.Context, x *exchange, stream int) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.timeout)
	defer cancel()
	if err := x.run(ctx, l.pickers.of(stream)); err != nil {
		return err
	}
	if l.endpoints != nil && !l.endpoints[x.destination] {
		return fmt.Errorf("destination %.100q is no endpoint of the fleet", x.destination)
	}
	return nil
}

func (s *seen) add(x *exchange, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.errors++; s.first == "" {
			s.first = err.Error()
		}
		return
	}
	// What lies outside of the range counts as its end.
	_ = s.decided.RecordValue(min(max(x.decided.Nanoseconds(), lowestLatency), highestLatency))
	_ = s.whole.RecordValue(min(max(x.whole.Nanoseconds(), lowestLatency), highestLatency))
	if len(s.endpoints) < maxEndpoints {
		s.endpoints[x.destination]++
	}
	s.sent += int64(len(x.call.body) + len(x.call.answer))
	s.gotten += x.received
}

func (l *load) result(s *seen) *result {
	return &result{
		Streams: l.o.streams, Connections: l.o.workers, Requests: l.o.requests, BodyBytes: l.o.work.bytes,
		Prompts: len(l.calls), Response: l.o.response,
		Seconds: s.took.Seconds(), RequestsPerSecond: float64(l.o.requests) / s.took.Seconds(),
		HeaderReply: percentilesOf(s.decided), Exchange: percentilesOf(s.whole),
		Errors: s.errors, FirstError: s.first, Endpoints: len(s.endpoints), BytesSent: s.sent, BytesReceived: s.gotten,
	}
}

// retryPause is the time between two looks at a picker that is not ready.
const retryPause = 50 * time.Millisecond

// waitReady sends requests until one is answered well.
func (l *load) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.timeout)
	defer cancel()
	for {
		err := l.one(ctx, &exchange{call: l.calls[0]}, 0)
		if err == nil {
			return nil
		}
		if (clock.Wall{}).Sleep(ctx, retryPause) != nil {
			return fmt.Errorf("no good answer from %s within %v: %w", l.o.address, l.o.timeout, err)
		}
	}
}

// settle waits, and measures what the picker needs without any load.
func (l *load) settle(ctx context.Context) (*float64, error) {
	if l.o.settle <= 0 {
		return nil, nil
	}
	// The first half belongs to what a start leaves behind.
	if err := (clock.Wall{}).Sleep(ctx, l.o.settle/2); err != nil || l.o.pid == 0 {
		return nil, err
	}
	before, err := cpuTime(l.o.pid)
	if err != nil {
		return nil, err
	}
	began := clock.Wall{}.Now()
	if err := (clock.Wall{}).Sleep(ctx, l.o.settle/2); err != nil {
		return nil, err
	}
	after, err := cpuTime(l.o.pid)
	return new((after - before).Seconds() * 1e3 / clock.Wall{}.Now().Sub(began).Seconds()), err
}
