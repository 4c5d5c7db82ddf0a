package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/sim/status"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/internal/zmtp"
)

const (
	// keptBatches is what a replay can go back: vLLM's buffer_steps.
	keptBatches = 10_000
	// keptBytes bounds their memory. vLLM has no such bound.
	keptBytes = 64 << 20
	// publishQueue is vLLM's hwm.
	publishQueue = 100_000
)

// A stream publishes the KV events of one server, numbered from 0: what each
// step changed is a batch. Nothing is encoded unless somebody listens.
type stream struct {
	server     *server
	generation kvevent.Generation
	topic      string
	publisher  *zmtp.Publisher
	wake       chan struct{} // run has to look again

	mu     sync.Mutex
	kept   []vllm.Batch // for replays, and those that have yet to go out
	bytes  int          // of kept
	first  uint64       // number of kept[0]
	next   uint64       // … of the batch that goes out next
	lost   uint64
	chance *rand.Rand
	out    encoder
}

// newStream makes the stream of a server that does not run yet.
func newStream(s *server, g kvevent.Generation) *stream {
	return &stream{
		server: s, generation: g, topic: fmt.Sprintf("kv@%s@%s", s.pod.at.http, s.pod.fleet.cfg.Model),
		publisher: zmtp.NewPublisher(publishQueue, zmtp.Options{}), wake: make(chan struct{}, 1),
		chance: rand.New(rand.NewPCG(uint64(s.pod.index), s.epoch)), //nolint:gosec // which batches get lost is no secret
	}
}

// add takes a batch from the engine, under its lock.
func (e *stream) add(b vllm.Batch) {
	e.mu.Lock()
	e.kept = append(e.kept, b)
	e.bytes += size(b)
	for len(e.kept) > keptBatches || e.bytes > keptBytes {
		e.bytes -= size(e.kept[0])
		e.kept[0] = vllm.Batch{}
		e.kept = e.kept[1:]
		e.first++
	}
	e.mu.Unlock()
	if e.flush() > 0 {
		e.look()
	}
}

// size is about how many bytes a batch holds.
func size(b vllm.Batch) int {
	const header, id, token = 96, 8, 4
	n := header + id*len(b.Removed)
	for _, run := range b.Stored {
		n += header + id*len(run.IDs) + token*len(run.Tokens)
	}
	return n
}

// look makes run look again.
func (e *stream) look() {
	select {
	case e.wake <- struct{}{}:
	default: // it will
	}
}

// flush sends what is due and says in what time of the engine the next batch is;
// 0 when there is none, or it is held. Batches that were held for so long that
// they are not kept any more are lost.
func (e *stream) flush() (wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next = max(e.next, e.first)
	now, faults := e.server.now(), e.server.pod.currentFaults()
	for ; e.next < e.end(); e.next++ {
		b := &e.kept[e.next-e.first]
		if e.server.pod.events.shut() {
			return 0
		}
		if due := b.At + faults.delay; due > now && faults.delay > 0 {
			return due - now
		}
		e.send(b, faults.lose)
	}
	return 0
}

func (e *stream) end() uint64 { return e.first + uint64(len(e.kept)) }

// send publishes one batch, or loses it.
func (e *stream) send(b *vllm.Batch, lose float64) {
	if lose > 0 && e.chance.Float64() < lose {
		e.lost++
		return
	}
	if e.publisher.Stats().Subscribers == 0 {
		return
	}
	e.publisher.Publish([]byte(e.topic), binary.BigEndian.AppendUint64(nil, e.next), e.encode(&e.out, b))
}

// run sends what was delayed or held, until the server's life ends.
func (e *stream) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		if wait := e.flush(); wait > 0 {
			timer.Reset(max(shortestSleep, time.Duration(float64(wait)/e.server.pod.fleet.cfg.Clock.Scale())))
			due = timer.C
		}
		select {
		case <-e.server.life.Done():
			return
		case <-e.wake:
		case <-due:
		}
	}
}

// progress is how many batches there have been, and how many of them were lost.
func (e *stream) progress() (next, lost uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.next, e.lost
}

// replay answers on the ROUTER as vLLM's publisher does: with all batches from a
// number on that went out and are kept, and an end mark. A request of another
// form has no answer; a number of fewer bytes is one.
func (e *stream) replay(_ context.Context, req [][]byte, reply func(parts ...[]byte) error) error {
	if len(req) != 2 || len(req[0]) != 0 || len(req[1]) > 8 {
		return nil
	}
	from := uint64(0)
	for _, b := range req[1] {
		from = from<<8 | uint64(b)
	}
	e.mu.Lock()
	start := min(max(from, e.first), max(e.next, e.first))
	batches := slices.Clone(e.kept[start-e.first : max(e.next, e.first)-e.first])
	e.mu.Unlock()

	var out encoder
	for i := range batches {
		number := binary.BigEndian.AppendUint64(nil, start+uint64(i))
		if err := reply(e.replyFrames(e.topic, number, e.encode(&out, &batches[i]))...); err != nil {
			return err
		}
	}
	return reply(e.replyFrames("", binary.BigEndian.AppendUint64(nil, math.MaxUint64), nil)...)
}

// replyFrames are a reply in the form of the generation: vLLM has the topic in it
// since 0.24.
func (e *stream) replyFrames(topic string, number, payload []byte) [][]byte {
	if e.generation != kvevent.MapV24 {
		return [][]byte{nil, number, payload}
	}
	return [][]byte{nil, []byte(topic), number, payload}
}

// An encoder has the buffers for one batch after the other.
type encoder struct {
	events []kvevent.Event
	buf    []byte
}

// encode writes a batch in the stream's generation; it is good until the next.
func (e *stream) encode(out *encoder, b *vllm.Batch) []byte {
	out.events = status.Events(out.events[:0], b, e.server.pod.fleet.loraID)
	batch := kvevent.Batch{At: e.server.origin.Add(b.At), Events: out.events}
	buf, err := kvevent.Append(out.buf[:0], e.generation, &batch)
	if err != nil {
		panic("sim: " + err.Error()) // the events are ours
	}
	out.buf = buf
	return buf
}

// loraID is the number of an adapter, counted from 1; -1 for the base model.
func (f *Fleet) loraID(adapter string) int64 {
	for i, a := range f.cfg.Adapters {
		if a.Name == adapter {
			return int64(i + 1)
		}
	}
	return -1
}

// eventSources is what vLLM tells of its streams, by data parallel rank.
func (s *server) eventSources(w http.ResponseWriter, _ *http.Request) {
	type source struct {
		Enabled   bool    `json:"enable_kv_cache_events"`
		Publisher string  `json:"publisher"`
		Endpoint  string  `json:"endpoint"`
		Replay    *string `json:"replay_endpoint"`
		Steps     int     `json:"buffer_steps"`
		HighWater int     `json:"hwm"`
		Queue     int     `json:"max_queue_size"`
		Topic     string  `json:"topic"`
	}
	if s.events == nil {
		writeJSON(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
		return
	}
	var replay *string
	if !s.pod.fleet.cfg.NoReplays {
		replay = new(everywhere(s.pod.at.replay))
	}
	writeJSON(w, http.StatusOK, map[string]source{"0": {
		Enabled: true, Publisher: "zmq", Endpoint: s.pod.eventsAt(), Replay: replay,
		Steps: keptBatches, HighWater: publishQueue, Queue: publishQueue, Topic: s.events.topic,
	}})
}

// eventsAt is what the engine was told of its events: a port, or where to connect to.
func (p *pod) eventsAt() string {
	if p.at.events == "" {
		return endpoint(p.fleet.cfg.EventsTo)
	}
	return everywhere(p.at.events)
}

// everywhere is how an engine is told to bind to a port.
func everywhere(hostPort string) string {
	return "tcp://*" + hostPort[strings.LastIndexByte(hostPort, ':'):]
}

// EventEncodings names what Config.EventsAs may be, the oldest first.
func EventEncodings() (names []string) {
	for g := kvevent.ArrayV08; g <= kvevent.SGLangMap; g++ {
		names = append(names, g.String())
	}
	return names
}

// generationNamed finds an encoding; "" is vLLM's newest.
func generationNamed(name string) (kvevent.Generation, error) {
	if name == "" {
		return kvevent.MapV24, nil
	}
	names := EventEncodings()
	if i := slices.Index(names, name); i >= 0 {
		return kvevent.Generation(i), nil
	}
	return 0, fmt.Errorf("encode events: no version %q; there are %s", name, strings.Join(names, ", "))
}
