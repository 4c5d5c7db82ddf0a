package serve

import (
	"cmp"
	crand "crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/certs"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/fleet"
	"github.com/eppctl/eppctl/internal/gateway"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/peers"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/sim"
	"github.com/eppctl/eppctl/internal/telemetry"
	"github.com/eppctl/eppctl/internal/tokens"
	"github.com/eppctl/eppctl/score"
	"github.com/eppctl/eppctl/score/cost"
)

// Server is a picker with all that belongs to it, built and not yet running.
type Server struct {
	opts  Options
	log   *slog.Logger
	clock clock.Clock

	listeners *listeners
	tree      *prefix.Tree
	pool      *pool.Pool
	ring      *record.Ring
	files     *record.Files // nil without a directory
	store     *record.Store
	metrics   *telemetry.Metrics
	watch     *fleet.Watch
	tokens    *tokens.Tokeniser // nil when nobody is asked
	picker    *picker.Picker
	gateway   *gateway.Gateway
	extproc   *extprocServer // nil without an address
	health    *health
	certs     *certs.Files            // nil without files
	current   func() *tls.Certificate // of all listeners; nil: nobody has asked for it yet
	watcher   *engine.Watcher
	feeds     *kvfeed.Feeds // nil without KV events
	fleet     *sim.Fleet    // nil without --sim
	fixed     []pool.Member // of the command line and the fleet
	endpoints *endpointsWatch
	peers     *peers.Exchange // nil when there are no other replicas
	kube      *kubeFleet      // nil outside of a cluster

	servers []namedServer  // in the order in which they end
	conns   sync.WaitGroup // their open connections, and so the handlers
}

type namedServer struct {
	name     string
	server   *http.Server
	listener *counted
}

// New builds a server: sockets are open and every setting is checked when it
// returns. [Server.Run] or [Server.Close] has to follow.
func New(opts Options) (*Server, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	weights, err := opts.Config.EngineWeights(opts.Custom)
	if err != nil {
		return nil, err
	}
	if opts.quiet == 0 {
		opts.quiet = quiet
	}
	if opts.Sim != nil && opts.ReportToken == "" {
		opts.ReportToken = crand.Text()
	}
	s := &Server{opts: opts, log: opts.Logger, clock: clock.Wall{}, health: newHealth()}
	if opts.Sim != nil {
		s.clock = clock.NewScaled(opts.Sim.Speed)
	}
	s.elect()
	if s.listeners, err = listen(&opts.Config); err != nil {
		return nil, err
	}
	for _, build := range []func() error{
		s.buildRecorder, s.buildFleet, s.buildPool, func() error { return s.buildPicker(weights) }, s.buildKube, s.buildPeers, s.buildServers,
	} {
		if err := build(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close frees what New opened, for a server that is not run.
func (s *Server) Close() error {
	s.listeners.close()
	if s.extproc != nil {
		s.extproc.server.Stop()
		s.extproc.close()
	}
	if s.tokens != nil {
		s.tokens.Close()
	}
	if s.fleet != nil {
		return s.fleet.Close()
	}
	return nil
}

func (s *Server) buildRecorder() (err error) {
	s.ring = record.NewRing(record.RingConfig{Bytes: s.opts.RecordMemory, Key: s.opts.RecordKey})
	if s.opts.RecordDir != "" {
		s.files, err = record.NewFiles(record.FilesConfig{Dir: s.opts.RecordDir, Ring: s.ring, Logger: s.log, Clock: s.clock})
		if err != nil {
			return fmt.Errorf("--record %s: %w", s.opts.RecordDir, err)
		}
	}
	s.store = record.NewStore(s.ring, s.files)
	return nil
}

func (s *Server) buildPool() error {
	c := &s.opts.Config
	s.tree = prefix.New()
	s.pool = pool.New(pool.Config{
		Clock: s.clock, Tree: s.tree, Limits: c.PoolLimits(), BlockSize: c.BlockSize, Logger: s.log, Models: c.PoolModels(),
		Assume: c.PoolAssume(),
	})
	s.watcher = engine.NewWatcher(engine.Config{
		Clock:          s.clock,
		ScrapeInterval: config.Milliseconds(c.Intervals.ScrapeMs),
		ProbeInterval:  config.Milliseconds(c.Intervals.ProbeMs),
		// Of one token, when they are wanted.
		GenerateInterval: c.Probes.Interval(),
		GenerateTimeout:  config.Seconds(c.Probes.TimeoutSeconds),
		Logger:           s.log,
	}, s.pool)
	s.buildFeeds()
	if s.opts.EndpointsFile != "" {
		s.endpoints = &endpointsWatch{path: s.opts.EndpointsFile, logger: s.log, set: func(m []pool.Member) error {
			return s.setMembers(slices.Concat(s.fixed, m))
		}}
		return s.endpoints.load()
	}
	return s.setMembers(s.fixed)
}

// setMembers changes the pool and whom the watcher looks at.
func (s *Server) setMembers(members []pool.Member) error {
	if err := checkMembers(members, s.feeds == nil || s.listeners.events != nil); err != nil {
		return err
	}
	if err := s.pool.Set(members); err != nil {
		return err
	}
	s.watcher.SetTargets(s.pool.Targets())
	return nil
}

func (s *Server) buildPicker(weights score.Weights) (err error) {
	s.metrics = telemetry.NewMetrics(s.metricSources())
	s.watch = s.newWatch()
	if err := s.buildTokens(); err != nil {
		return err
	}
	var tokeniser picker.Tokeniser
	if s.tokens != nil {
		tokeniser = s.tokens
	}
	s.picker, err = picker.New(picker.Config{
		Pool: s.pool, Tree: s.tree, Recorder: s.store, Clock: s.clock, Weights: weights, Scorers: s.opts.Scorers,
		Policy: s.opts.Policy, BlockSize: s.opts.Config.BlockSize, Logger: s.log, Tokeniser: tokeniser, Election: s.opts.Election,
		ScorerDeadline: config.Milliseconds(s.opts.Config.ScorerDeadlineMs), Settle: s.opts.settle,
		Observer: observers{s.watch, telemetry.NewObserver(s.metrics, s.log, s.ring.Render)},
	})
	if err != nil {
		return err
	}
	s.gateway, err = gateway.New(gateway.Config{
		Picker: s.picker, Clock: s.clock, Logger: s.log, MaxBody: s.opts.MaxBody, MaxBodies: s.opts.MaxBodies,
		AllowHeaders: s.opts.Config.AllowHeaders,
	})
	if err != nil {
		return err
	}
	return errors.Join(s.registerGateway(), s.registerTokens(), s.registerElection(), s.buildExtproc())
}

// buildFleet makes the simulated pods, which are members of the pool like those
// of the command line.
func (s *Server) buildFleet() (err error) {
	s.fixed = slices.Clone(s.opts.Endpoints)
	o := s.opts.Sim
	if o == nil {
		return nil
	}
	s.fleet, err = sim.New(sim.Config{
		Pods: o.Pods, Clock: s.clock, Model: o.Model, Profile: o.Profile, Blocks: o.Blocks,
		Adapters: o.Adapters, MaxAdapters: o.MaxAdapters,
		ReportURL: func() string { return "http://" + address(s.listeners.report) + "/v1/reports" },
		OwnTokens: o.OwnTokens, ReportToken: s.opts.ReportToken, ReportInterval: config.Milliseconds(s.opts.Config.Intervals.PodReportMs),
		Events: o.Events, EventsTo: address(s.listeners.events), EventsAs: o.EventsAs, EventLoss: o.EventLoss, NoReplays: o.NoReplays,
		Logger: s.log,
	})
	if err != nil {
		return err
	}
	pods := s.fleet.Pods()
	for i, p := range pods {
		price := cost.OnDemandA100
		if i >= len(pods)-o.Spot {
			price = cost.SpotA10G
		}
		events := cmp.Or(p.Events, pool.EventsOff)
		if p.EventsTo != "" {
			events = pool.EventsListen
		}
		s.fixed = append(s.fixed, pool.Member{
			Name: p.Name, Address: p.Address, URL: p.URL, Events: events, Replay: p.Replay,
			GPUURL: p.URL + sim.GPUPath, Annotations: map[string]string{cost.PriceKey: strconv.FormatFloat(price, 'f', -1, 64)},
		})
	}
	return nil
}

func (s *Server) buildServers() error {
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", s.metrics.Handler(s.log))
	s.add("gateway", s.gateway.Server(), s.listeners.gateway)
	reports, err := s.reportsServer()
	if err != nil {
		return err
	}
	s.add("reports", reports, s.listeners.report)
	admin, err := s.adminServer()
	if err != nil {
		return err
	}
	s.add("admin", admin, s.listeners.admin)
	s.add("metrics", s.plainServer(metrics), s.listeners.metrics)
	health := s.plainServer(s.health.handler())
	health.Protocols = new(http.Protocols)
	health.Protocols.SetHTTP1(true)
	health.Protocols.SetUnencryptedHTTP2(true) // for gRPC
	s.add("health", health, s.listeners.health)
	return nil
}

// serve serves until the server is closed.
func (n *namedServer) serve() error {
	if n.server.TLSConfig != nil {
		return n.server.ServeTLS(n.listener, "", "")
	}
	return n.server.Serve(n.listener)
}

func (s *Server) add(name string, server *http.Server, ln *counted) {
	if ln != nil {
		server.ConnState = s.count
		s.servers = append(s.servers, namedServer{name, server, ln})
	}
}

// plainServer serves small answers to trusted callers.
func (s *Server) plainServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// Addresses are the real addresses of the listeners.
func (s *Server) Addresses() Addresses {
	a := s.listeners.addresses()
	if s.opts.Sim != nil {
		a.Model = s.fleet.Model()
	}
	return a
}
