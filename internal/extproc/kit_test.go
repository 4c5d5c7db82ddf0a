package extproc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/logtest"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a server with the real picker, pool and tree behind it, and where it
// was asked for a gRPC connection to it.
type site struct {
	*Server
	picker *picker.Picker
	pool   *pool.Pool
	ring   *record.Ring
	log    *logtest.Log
	conn   *grpc.ClientConn
}

// setup is what a test changes of a site before it stands.
type setup struct {
	server Config
	picker picker.Config
	models []pool.ModelEntry
	pods   []string // addresses
	queue  float64  // requests that wait at the first pod
	ring   *record.Ring
	log    *logtest.Log
	// wrap puts something between the server and the picker.
	wrap func(*picker.Picker) Picker
}

// newSite makes a site without a network. Of its pods, pod-0 at 10.0.0.1:8000 and
// so on, the first has the shortest queue and wins, the others follow in order.
func newSite(tb testing.TB, change func(*setup)) *site {
	tb.Helper()
	s := &site{ring: record.NewRing(record.RingConfig{Bytes: 4 << 20}), log: &logtest.Log{}}
	tree := prefix.New()
	logger := slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
	set := setup{
		ring: s.ring, log: s.log,
		pods:   []string{podAddress(0), podAddress(1), podAddress(2)},
		server: Config{Clock: clock.Wall{}, Logger: logger},
		picker: picker.Config{Tree: tree, Recorder: s.ring, Clock: clock.Wall{}, Weights: score.Default(), BlockSize: 16, Logger: logger},
	}
	if change != nil {
		change(&set)
	}
	s.pool = pool.New(pool.Config{
		Clock: clock.Wall{}, Tree: tree, BlockSize: 16, Models: set.models,
		Limits: pool.Limits{Metrics: 24 * time.Hour, Reports: 24 * time.Hour},
	})
	members := make([]pool.Member, len(set.pods))
	for i, address := range set.pods {
		members[i] = pool.Member{Name: fmt.Sprintf("pod-%d", i), Address: address}
	}
	if err := s.pool.Set(members); err != nil {
		tb.Fatal(err)
	}
	s.queues(set.queue)
	set.picker.Pool = s.pool
	var err error
	if s.picker, err = picker.New(set.picker); err != nil {
		tb.Fatal(err)
	}
	set.server.Picker = s.picker
	if set.wrap != nil {
		set.server.Picker = set.wrap(s.picker)
	}
	if s.Server, err = New(set.server); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.Close()
		if err := s.picker.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func podAddress(i int) string { return fmt.Sprintf("10.0.0.%d:8000", i+1) }

// queues scrapes and probes all pods; each has two more waiting than the one before.
func (s *site) queues(first float64) {
	now := time.Now()
	for i, t := range s.pool.Targets() {
		known := engine.Value{Known: true}
		page := engine.Page{Waiting: known, Running: known, KVUsage: known, AdaptersState: known}
		page.Waiting.V = first + float64(2*i)
		s.pool.Scraped(t, engine.Scrape{Page: page, Start: now, End: now})
		s.pool.Probed(t, engine.Probe{Healthy: true, At: now})
	}
}

// serve puts the site on a gRPC server in memory.
func (s *site) serve(tb testing.TB) {
	tb.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(s.Options()...)
	s.Register(server)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(listener); err != nil {
			tb.Error(err)
		}
	})
	conn, err := grpc.NewClient("passthrough:///picker", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		tb.Fatal(err)
	}
	s.conn = conn
	tb.Cleanup(func() {
		conn.Close()
		s.Drain()
		server.GracefulStop()
		wg.Wait()
	})
}

// bubble runs a test in fake time, with a site that is served.
func bubble(t *testing.T, change func(*setup), f func(t *testing.T, s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, change)
		s.serve(t)
		f(t, s)
	})
}

// settled fails when anything of a request is still held.
func (s *site) settled(tb testing.TB) {
	tb.Helper()
	if n := s.picker.Open(); n != 0 {
		tb.Errorf("%d picks are open, want none", n)
	}
	if n := s.pool.InFlight(); n != 0 {
		tb.Errorf("the ledger is at %d, want 0", n)
	}
	st := s.Stats()
	if st.BodyBytes != 0 || st.Streams != 0 || st.Waiting != 0 {
		tb.Errorf("%d bytes of bodies, %d streams and %d picks are held, want none", st.BodyBytes, st.Streams, st.Waiting)
	}
}

// abandon gives up on requests whose end no test has told, and is settled then.
func (s *site) abandon(tb testing.TB) {
	tb.Helper()
	time.Sleep(s.cfg.EndTimeout)
	synctest.Wait()
	s.settled(tb)
}

// records are the decisions so far, newest first.
func (s *site) records(tb testing.TB) []*explain.Record {
	tb.Helper()
	found, err := record.NewStore(s.ring, nil).Find(context.Background(), record.Query{Limit: 100})
	if err != nil {
		tb.Fatal(err)
	}
	return found.Records
}

// record is the only decision.
func (s *site) record(tb testing.TB) *explain.Record {
	tb.Helper()
	all := s.records(tb)
	if len(all) != 1 {
		tb.Fatalf("%d records, want 1", len(all))
	}
	return all[0]
}
