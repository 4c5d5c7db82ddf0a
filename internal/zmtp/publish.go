package zmtp

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// highWater is the default queue of vLLM's publishers.
	highWater = 100_000
	// maxTopics and maxTopicBytes bound what one peer subscribes to.
	maxTopics     = 64
	maxTopicBytes = 64 << 10
	// maxPongs is how many PONGs may wait to be sent; the next ones are not.
	maxPongs = 16
)

// A Publisher is a PUB socket: each message goes to all who subscribed to what
// its first part begins with. One whose queue is full misses it. It is safe for
// concurrent use.
type Publisher struct {
	highWater int
	options   Options

	mu    sync.Mutex
	peers map[*subscriber]struct{}

	dropped  atomic.Uint64
	packets  sync.Pool
	accepted atomic.Uint64
}

// PublisherStats counts since the publisher was made.
type PublisherStats struct {
	// Subscribers is how many peers subscribe to something now.
	Subscribers int
	// Connections is how many peers there have been.
	Connections uint64
	// Dropped counts messages that a subscriber missed, once for each of them.
	Dropped uint64
}

// NewPublisher makes a publisher that queues up to highWater messages for each
// subscriber; 0 means 100,000.
func NewPublisher(queue int, o Options) *Publisher {
	if queue == 0 {
		queue = highWater
	}
	return &Publisher{
		highWater: queue, options: o.orDefaults(), peers: map[*subscriber]struct{}{},
		packets: sync.Pool{New: func() any { return new(packet) }},
	}
}

// A packet is a message as it is sent, shared by those who get it.
type packet struct {
	frames []byte
	uses   atomic.Int32
}

// A subscriber is a peer of a publisher.
type subscriber struct {
	queue  chan *packet
	pongs  chan []byte
	topics [][]byte // guarded by the publisher's mutex
}

// Serve publishes to all subscribers that connect to l until ctx ends, then it
// returns nil. It closes l.
func (p *Publisher) Serve(ctx context.Context, l net.Listener) error {
	return accept(ctx, l, p.options.Peers, p.serve, func(net.Conn, error) {})
}

// Connect publishes to a subscriber that listens at tcp://host:port, and connects
// again and again, until ctx ends, then it returns nil. The error is of an address
// that cannot be.
func (p *Publisher) Connect(ctx context.Context, address string) error {
	return keep(ctx, address, p.options, p.serve, func(error) {})
}

// Publish sends a message and does not wait for anybody.
func (p *Publisher) Publish(parts ...[]byte) {
	if len(parts) == 0 {
		return
	}
	pk := p.packets.Get().(*packet)
	pk.frames = appendMessage(pk.frames[:0], parts)
	pk.uses.Store(1)
	p.mu.Lock()
	for s := range p.peers {
		if !s.wants(parts[0]) {
			continue
		}
		pk.uses.Add(1)
		select {
		case s.queue <- pk:
		default:
			pk.uses.Add(-1)
			p.dropped.Add(1)
		}
	}
	p.mu.Unlock()
	p.done(pk)
}

// done gives up one use of a packet.
func (p *Publisher) done(pk *packet) {
	if pk.uses.Add(-1) == 0 && cap(pk.frames) <= keptBuffer {
		p.packets.Put(pk)
	}
}

// Stats counts.
func (p *Publisher) Stats() PublisherStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PublisherStats{Connections: p.accepted.Load(), Dropped: p.dropped.Load()}
	for peer := range p.peers {
		if len(peer.topics) > 0 {
			s.Subscribers++
		}
	}
	return s
}

// serve lives the life of one connection.
func (p *Publisher) serve(ctx context.Context, nc net.Conn) {
	_ = use(ctx, nc, pub, p.options, func(c *conn) error {
		s := &subscriber{queue: make(chan *packet, p.highWater), pongs: make(chan []byte, maxPongs)}
		p.add(s)
		var sender sync.WaitGroup
		gone := make(chan struct{})
		sender.Go(func() {
			p.send(c.Conn, s, gone)
			c.Close()
		})
		defer func() {
			p.remove(s)
			close(gone)
			c.Close() // a write under way ends
			sender.Wait()
		}()
		return p.listen(c, s)
	}) // the subscriber knows why
}

// listen takes what a subscriber says.
func (p *Publisher) listen(c *conn, s *subscriber) error {
	c.send = s.pong
	c.command = func(name string, topic []byte) error { return p.command(s, name, topic) }
	return c.receive(func(message [][]byte) error { return p.message(s, message) })
}

func (p *Publisher) add(s *subscriber) {
	p.accepted.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peers[s] = struct{}{}
}

func (p *Publisher) remove(s *subscriber) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.peers, s)
}

// send writes what is queued, as much at once as there is, until the connection
// fails or is gone. It waits for a slow subscriber as long as that lives.
func (p *Publisher) send(nc net.Conn, s *subscriber, gone <-chan struct{}) {
	_ = nc.SetWriteDeadline(time.Time{}) // a closed connection shows at once
	var out []byte
	for {
		select {
		case <-gone:
			return
		case pong := <-s.pongs:
			out = append(out[:0], pong...)
		case pk := <-s.queue:
			out = append(out[:0], pk.frames...)
			p.done(pk)
		}
		for more := true; more && len(out) < readBuffer; {
			select {
			case pk := <-s.queue:
				out = append(out, pk.frames...)
				p.done(pk)
			default:
				more = false
			}
		}
		if _, err := nc.Write(out); err != nil {
			return
		}
		if cap(out) > keptBuffer {
			out = nil
		}
	}
}

// pong queues a PONG. One who asks faster than it reads goes without.
func (s *subscriber) pong(frame []byte) error {
	select {
	case s.pongs <- frame:
	default:
	}
	return nil
}

// message takes a subscription in the form before 3.1; PUB ignores other messages.
func (p *Publisher) message(s *subscriber, parts [][]byte) error {
	if len(parts) != 1 || len(parts[0]) == 0 {
		return nil
	}
	switch topic := parts[0][1:]; parts[0][0] {
	case subscribeByte:
		return p.subscribe(s, topic)
	case cancelByte:
		p.cancel(s, topic)
	}
	return nil
}

func (p *Publisher) command(s *subscriber, name string, topic []byte) error {
	switch name {
	case "SUBSCRIBE":
		return p.subscribe(s, topic)
	case "CANCEL":
		p.cancel(s, topic)
	}
	return nil
}

func (p *Publisher) subscribe(s *subscriber, topic []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	bytes := len(topic)
	for _, t := range s.topics {
		bytes += len(t)
	}
	if len(s.topics) == maxTopics || bytes > maxTopicBytes {
		return fmt.Errorf("%w: more than %d subscriptions or %d bytes of them", ErrLimit, maxTopics, maxTopicBytes)
	}
	s.topics = append(s.topics, slices.Clone(topic))
	return nil
}

// cancel takes back one subscription to a topic; who subscribed twice keeps one.
func (p *Publisher) cancel(s *subscriber, topic []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(s.topics, func(t []byte) bool { return bytes.Equal(t, topic) }); i >= 0 {
		s.topics = slices.Delete(s.topics, i, i+1)
	}
}

// wants is whether a message's first part begins with a topic subscribed to.
func (s *subscriber) wants(part []byte) bool {
	return slices.ContainsFunc(s.topics, func(t []byte) bool { return bytes.HasPrefix(part, t) })
}
