package kvfeed_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/zmtp"
	"github.com/eppctl/eppctl/score"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// hands is a clock that is set by hand.
type hands struct {
	mu  sync.Mutex
	now time.Time
}

func (h *hands) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hands) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func (h *hands) Sleep(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (h *hands) Scale() float64 { return 1 }

// A rig is a pool and the feeds of its members.
type rig struct {
	t     *testing.T
	clock *hands
	tree  *prefix.Tree
	pool  *pool.Pool
	sink  *sink // that pool
	feeds *kvfeed.Feeds
	log   *lines
	stop  func() // ends the feeds
}

const blockSize = 16

func newRig(t *testing.T, cfg kvfeed.Config, members ...pool.Member) *rig {
	t.Helper()
	r := &rig{t: t, clock: &hands{now: time.Now()}, tree: prefix.New(), log: &lines{last: map[string]context.Context{}}}
	logger := slog.New(lineHandler{slog.NewTextHandler(r.log, nil), r.log})
	r.pool = pool.New(pool.Config{Clock: r.clock, Tree: r.tree, BlockSize: blockSize, Logger: logger})
	cfg.Tree, cfg.BlockSize, cfg.Clock, cfg.Logger = r.tree, blockSize, r.clock, logger
	r.sink = &sink{Pool: r.pool, slots: map[string]prefix.Slot{}, told: map[prefix.Slot]kvfeed.State{}}
	r.feeds = kvfeed.New(cfg, r.sink)
	r.stop = start(t, r.feeds.Run)
	r.set(members...)
	return r
}

// start runs what lasts until its context ends, and waits for it with the test.
func start(t *testing.T, run func(context.Context) error) (stop func()) {
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

// set changes the pool's members, all of which serve the model m and its adapter.
func (r *rig) set(members ...pool.Member) {
	r.t.Helper()
	if err := r.pool.Set(members); err != nil {
		r.t.Fatal(err)
	}
	r.list("m")
}

func (r *rig) list(model string) {
	for _, target := range r.pool.Targets() {
		r.pool.Listed(target, []engine.Model{{ID: model}, {ID: "adapter", Parent: model}}, nil)
	}
	r.feeds.SetTargets(r.pool.Feeds())
}

// view is what is known of a pod.
func (r *rig) view(pod string) pool.View {
	r.t.Helper()
	for _, v := range r.pool.Views() {
		if v.State.Pod == pod && !v.Departed {
			return v
		}
	}
	r.t.Fatalf("no pod %s", pod)
	return pool.View{}
}

func (r *rig) stream(pod string, rank int) kvfeed.Stats {
	for _, s := range r.view(pod).Streams {
		if s.Rank == rank {
			return s
		}
	}
	return kvfeed.Stats{}
}

func (r *rig) cache(pod string) score.Reading { return r.view(pod).State.Cache }

func (r *rig) note(pod string) string {
	if notes := r.view(pod).State.Notes; notes != nil {
		return notes[score.CacheMatch]
	}
	return ""
}

// query is a prompt as a decision looks for it.
func (r *rig) query(root uint64, tokens []uint32) *pool.Query {
	q := &pool.Query{}
	for _, size := range r.pool.BlockSizes() {
		m := pool.Match{BlockSize: size, Blocks: prefix.Fingerprints(nil, root, tokens, size), Counts: make([]uint32, r.tree.Slots())}
		r.tree.Lookup(m.Blocks, m.Counts)
		q.Matches = append(q.Matches, m)
	}
	return q
}

// matched is how many blocks of ours a pod is believed to hold of a prompt.
func (r *rig) matched(pod string, root uint64, tokens []uint32) int {
	states, _ := r.pool.States(nil, r.query(root, tokens))
	i := slices.IndexFunc(states, func(s score.PodState) bool { return s.Pod == pod })
	if i < 0 || states[i].Cache.State == score.Unknown {
		return -1
	}
	return int(states[i].Cache.Value)
}

func (r *rig) untilMatched(pod string, root uint64, tokens []uint32, want int) {
	r.t.Helper()
	until(r.t, fmt.Sprintf("%s matches %d blocks", pod, want), func() bool { return r.matched(pod, root, tokens) == want })
}

// pick books a pod for a prompt.
func (r *rig) pick(pod string, root uint64, tokens []uint32) *pool.Reservation {
	r.t.Helper()
	booked := new(pool.Reservation)
	if _, chosen, _ := r.pool.Choose(nil, r.query(root, tokens), named(pod), booked); chosen < 0 {
		r.t.Fatalf("no pod %s", pod)
	}
	return booked
}

// named chooses a pod by its name.
type named string

func (n named) Choose(pods []score.PodState, _ uint64) int {
	return slices.IndexFunc(pods, func(s score.PodState) bool { return s.Pod == string(n) })
}

// A publisher is one rank of an engine.
type publisher struct {
	t              *testing.T
	events, replay string // addresses
	pub            *zmtp.Publisher
	stop           func()

	mu      sync.Mutex
	at      time.Time // of its next batches; zero: now
	seq     uint64    // of the next batch
	rank    int
	topic   string
	sent    [][]byte // payloads since the start
	asked   int      // replays
	stopAt  int      // a replay breaks off there; 0: it does not
	answers bool
}

// newPublisher listens on a free port, or on that of one that has ended.
func newPublisher(t *testing.T, events string) *publisher {
	t.Helper()
	p := &publisher{t: t, pub: zmtp.NewPublisher(0, zmtp.Options{})}
	if events == "" {
		events = "tcp://127.0.0.1:0"
	}
	l, err := zmtp.Listen(t.Context(), events)
	if err != nil {
		t.Fatal(err)
	}
	p.events = "tcp://" + l.Addr().String()
	p.stop = start(t, func(ctx context.Context) error { return p.pub.Serve(ctx, l) })
	return p
}

// withReplay makes missed batches available.
func (p *publisher) withReplay() *publisher {
	p.t.Helper()
	l, err := zmtp.Listen(p.t.Context(), "tcp://127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	p.replay, p.answers = "tcp://"+l.Addr().String(), true
	start(p.t, func(ctx context.Context) error { return zmtp.ServeRouter(ctx, l, zmtp.Options{}, p.answer) })
	return p
}

func (p *publisher) answer(ctx context.Context, request [][]byte, reply func(...[]byte) error) error {
	p.mu.Lock()
	from, sent, stopAt, answers := int(binary.BigEndian.Uint64(request[1])), p.sent, p.stopAt, p.answers
	p.asked++
	p.stopAt = 0
	p.mu.Unlock()
	if !answers {
		<-ctx.Done()
		return nil
	}
	for seq := from; seq < len(sent); seq++ {
		if stopAt > 0 && seq == stopAt {
			return fmt.Errorf("break off at %d", seq)
		}
		if err := reply(nil, nil, binary.BigEndian.AppendUint64(nil, uint64(seq)), sent[seq]); err != nil {
			return err
		}
	}
	return reply(nil, nil, bytes.Repeat([]byte{0xff}, 8), nil)
}

func (p *publisher) replays() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// heard waits until somebody listens.
func (p *publisher) heard() *publisher {
	p.t.Helper()
	until(p.t, "somebody listens", func() bool { return p.pub.Stats().Subscribers > 0 })
	return p
}

// send publishes a batch; lose only counts it.
func (p *publisher) send(events ...kvevent.Event) { p.batch(true, events) }
func (p *publisher) lose(events ...kvevent.Event) { p.batch(false, events) }

func (p *publisher) batch(publish bool, events []kvevent.Event) {
	p.t.Helper()
	at := p.at
	if at.IsZero() {
		at = time.Now()
	}
	payload, err := kvevent.Append(nil, kvevent.MapV24, &kvevent.Batch{At: at, Rank: p.rank, Events: events})
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	seq := p.seq
	p.seq++
	p.sent = append(p.sent, payload)
	p.mu.Unlock()
	if publish {
		p.raw([]byte(p.topic), binary.BigEndian.AppendUint64(nil, seq), payload)
	}
}

func (p *publisher) raw(parts ...[]byte) { p.pub.Publish(parts...) }

// tokens are a prompt's; another mark makes another prompt.
func tokens(mark, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(mark*100_000 + i)
	}
	return out
}

var root = prefix.Root("m", "", "")

// stored announces the blocks of a prompt from one on, in blocks of a size. The
// engine's hashes are mark·1000 and up.
func stored(mark int, prompt []uint32, size, from, to int) kvevent.Event {
	e := kvevent.Event{
		Kind: kvevent.Stored, Tokens: prompt[from*size : to*size], BlockSize: size, LoRAID: -1, Group: 0,
	}
	for i := from; i < to; i++ {
		e.Hashes = append(e.Hashes, hash(mark, i))
	}
	if from > 0 {
		e.HasParent, e.Parent = true, hash(mark, from-1)
	}
	return e
}

func hash(mark, block int) uint64 { return uint64(mark*1000 + block) }

func removed(mark, from, to int) kvevent.Event {
	e := kvevent.Event{Kind: kvevent.Removed, LoRAID: -1, Group: 0}
	for i := from; i < to; i++ {
		e.Hashes = append(e.Hashes, hash(mark, i))
	}
	return e
}

func cleared() kvevent.Event { return kvevent.Event{Kind: kvevent.Cleared, LoRAID: -1, Group: -1} }

// member is a pod whose events are those of the publisher.
func member(name string, p *publisher) pool.Member {
	return pool.Member{Name: name, Address: "127.0.0.1:" + fmt.Sprint(8000+int(name[0])), Events: p.events, Replay: p.replay}
}
