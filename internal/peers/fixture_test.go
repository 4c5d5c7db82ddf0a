package peers

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/internal/certs"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	token     = "secret-of-all"
	blockSize = 16
)

// wires is a network in memory: an address is a listener.
type wires struct {
	mu      sync.Mutex
	at      map[string]*wire
	latency time.Duration // of each write
	cut     bool          // nobody is reached, and no byte comes through
}

func newWires() *wires { return &wires{at: map[string]*wire{}} }

func (w *wires) dial(ctx context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	to, cut := w.at[address], w.cut
	w.mu.Unlock()
	if to == nil || cut {
		return nil, fmt.Errorf("dial %s: connection refused", address)
	}
	here, there := net.Pipe()
	select {
	case to.accept <- &slow{Conn: there, of: w}:
		return &slow{Conn: here, of: w}, nil
	case <-to.closed:
	case <-ctx.Done():
	}
	return nil, fmt.Errorf("dial %s: connection refused", address)
}

func (w *wires) sever(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

// slow is a connection. Once something was lost on it nothing comes through any more.
type slow struct {
	net.Conn
	of   *wires
	lost atomic.Bool
}

func (s *slow) Write(b []byte) (int, error) {
	s.of.mu.Lock()
	cut, latency := s.of.cut, s.of.latency
	s.of.mu.Unlock()
	if cut || s.lost.Load() {
		s.lost.Store(true)
		return len(b), nil
	}
	time.Sleep(latency)
	return s.Conn.Write(b)
}

// wire is a listener.
type wire struct {
	address string
	accept  chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (w *wires) listen(address string) *wire {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &wire{address: address, accept: make(chan net.Conn), closed: make(chan struct{})}
	w.at[address] = l
	return l
}

func (l *wire) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *wire) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)} }

// replica is a picker with its exchange.
type replica struct {
	*picker.Picker
	pool *pool.Pool
	*Exchange
	server *http.Server
	tls    *tls.Certificate // it shows; nil = it speaks no TLS
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func podName(i int) string { return fmt.Sprintf("pod-%02d", i) }

// newReplica makes a picker over pods that exist only as members of its pool, of which
// the first holds the hot prompt.
func newReplica(t *testing.T, pods int, seed uint64) *replica {
	t.Helper()
	tree := prefix.New()
	p := pool.New(pool.Config{
		Clock: clock.Wall{}, Tree: tree, BlockSize: blockSize, Limits: pool.Limits{Metrics: time.Hour, Reports: time.Hour},
	})
	members := make([]pool.Member, pods)
	for i := range members {
		members[i] = pool.Member{Name: podName(i), Address: fmt.Sprintf("127.0.0.1:%d", 8000+i)}
	}
	if err := p.Set(members); err != nil {
		t.Fatal(err)
	}
	r := &replica{pool: p}
	var err error
	r.Picker, err = picker.New(picker.Config{
		Pool: p, Tree: tree, Recorder: record.NewStore(record.NewRing(record.RingConfig{Bytes: 1 << 20}), nil), Clock: clock.Wall{},
		Weights: score.Default(), BlockSize: blockSize, Random: rand.NewPCG(seed, 1), Hasty: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		one := &report.Report{Pod: podName(i), Epoch: 1, Seq: 1, Full: true, Model: "m", BlockSize: blockSize, TakenAt: time.Now()}
		if i == 0 {
			one.Chains = []report.Chain{{Root: true, Blocks: prefix.Fingerprints(nil, prefix.Root("m", "", ""), hot(), blockSize)}}
		}
		if _, err := p.Report(one, "127.0.0.1"); err != nil {
			t.Fatal(err)
		}
	}
	r.scraped(func(string) int { return 0 })
	return r
}

// hot is the prompt that all ask for.
func hot() []uint32 {
	ids := make([]uint32, 64)
	for i := range ids {
		ids[i] = uint32(i) + 1
	}
	return ids
}

// scraped gives every pod a scrape that begins and ends now.
func (r *replica) scraped(waiting func(pod string) int) {
	now := time.Now()
	for _, t := range r.pool.Targets() {
		r.scrapedOne(t, waiting(t.Name), now)
	}
}

func (r *replica) scrapedOne(t engine.Target, waiting int, at time.Time) {
	value := engine.Value{Known: true}
	page := engine.Page{Waiting: value, Running: value, KVUsage: value, AdaptersState: value}
	page.Waiting.V = float64(waiting)
	r.pool.Scraped(t, engine.Scrape{Page: page, Start: at, End: at})
	r.pool.Probed(t, engine.Probe{Healthy: true, At: at})
}

// pick asks for the hot prompt.
func (r *replica) pick(t *testing.T) *picker.Pick {
	t.Helper()
	tokens := hot()
	k, err := r.Pick(context.Background(), &picker.Call{ID: "r", Path: "/v1/completions", Arrival: time.Now(), Request: &request.Request{
		Kind: request.Completions, Model: "m", Tokens: tokens, TotalTokens: len(tokens),
		PromptTokens: [][]uint32{tokens}, TokensFrom: request.FromIDs,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func finish(k *picker.Pick) {
	k.Done(picker.End{Status: 200, PromptTokens: -1, CachedTokens: -1, OutputTokens: -1})
}

// join lets the replica talk to those at the addresses, from an address of its own.
func (r *replica) join(t *testing.T, w *wires, own string, change func(*Config), addresses ...string) {
	t.Helper()
	cfg := Config{Pool: r.pool, Replica: own, Addresses: addresses, Token: token, dial: w.dial}
	if change != nil {
		change(&cfg)
	}
	var err error
	if r.Exchange, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, r.Exchange)
	r.server = &http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	var listener net.Listener = w.listen(own)
	if r.tls != nil {
		listener = tls.NewListener(listener, certs.Config(func() *tls.Certificate { return r.tls }))
	}
	r.done.Go(func() { _ = r.server.Serve(listener) })
	r.done.Go(func() { _ = r.Run(ctx) })
}

// leave ends the replica's part.
func (r *replica) leave() {
	if r.Exchange == nil {
		return
	}
	r.stop()
	_ = r.server.Close()
	r.done.Wait()
	time.Sleep(time.Second) // for handlers that are about to write
}

// pending is what the replica believes of a pod.
func (r *replica) pending(pod string) (own, peers int) {
	for _, v := range r.pool.Views() {
		if v.State.Pod == pod {
			return v.State.Pending, v.State.PeerPending
		}
	}
	return -1, -1
}

// replicas are n that know each other.
func replicas(t *testing.T, w *wires, n, pods int, change func(*Config)) []*replica {
	t.Helper()
	var all []*replica
	var addresses []string
	for i := range n {
		all = append(all, newReplica(t, pods, uint64(i)+1))
		addresses = append(addresses, fmt.Sprintf("10.0.0.%d:9092", i+1))
	}
	for i, r := range all {
		r.join(t, w, addresses[i], change, addresses...)
	}
	return all
}
