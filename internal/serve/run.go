package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/logkey"
)

// Run serves until ctx ends or the built-in traffic has come to its end, lets
// running requests finish, and returns when everything has ended.
func (s *Server) Run(ctx context.Context) error {
	// Everything runs on after ctx has ended, until the last request is done.
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	g, work := errgroup.WithContext(work)
	flush := s.startFiles(context.WithoutCancel(ctx))
	s.start(work, g)
	// Whatever goes on after the signal, nobody should send anything new.
	defer context.AfterFunc(ctx, s.health.end)()

	err := s.welcome(ctx, work)
	retire := s.standForElection(ctx, g)
	if err == nil {
		err = s.untilTheEnd(ctx, work)
	}
	s.health.end()
	retire()
	if ctx.Err() != nil {
		s.linger(work)
	}
	s.drain()
	// Before the rest is cut: how that would have ended, nobody knows.
	flush()
	stop(nil)
	s.end()
	if werr := g.Wait(); werr != nil && !errors.Is(werr, context.Canceled) {
		err = errors.Join(err, werr)
	}
	s.conns.Wait()
	s.endScorers()
	s.gateway.Close()
	if s.tokens != nil {
		s.tokens.Close()
	}
	return err
}

// start starts everything that runs.
func (s *Server) start(ctx context.Context, g *errgroup.Group) {
	s.watch.Look() // so that there is something to show
	for _, n := range s.servers {
		g.Go(func() error {
			if err := n.serve(); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("%s server: %w", n.name, err)
			}
			return nil
		})
	}
	runners := []func(context.Context) error{s.watcher.Run, s.watch.Run}
	if s.feeds != nil {
		runners = append(runners, s.feeds.Run, s.follow)
	}
	if s.extproc != nil {
		g.Go(s.extproc.serve)
	}
	if s.certs != nil {
		runners = append(runners, s.certs.Run)
	}
	if s.fleet != nil {
		runners = append(runners, s.fleet.Run)
	}
	if s.endpoints != nil {
		runners = append(runners, s.endpoints.run)
	}
	if s.peers != nil {
		runners = append(runners, s.peers.Run)
	}
	if s.kube != nil {
		runners = append(runners, s.kube.run, s.lookAtPools)
	}
	for _, run := range runners {
		g.Go(func() error { return run(ctx) })
	}
}

// startFiles starts the writer of records, which ends, with everything that is
// recorded by then on disk, when it is told to flush.
func (s *Server) startFiles(ctx context.Context) (flush func()) {
	if s.files == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() { _ = s.files.Run(ctx) }) // logs and counts its problems itself
	return func() {
		cancel()
		writer.Wait()
	}
}

// count follows the connections of all servers: a connection closes after its
// handler has returned, so when none is left no request is.
func (s *Server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.conns.Done()
	case http.StateActive, http.StateIdle:
	}
}

// firstLook bounds the wait for the first scrape of every pod, in wall time.
const firstLook = 5 * time.Second

// welcome waits until the cluster has told of its pods and these have been looked at
// once, and says that requests are welcome. Pods that do not answer do not keep it
// waiting for long.
func (s *Server) welcome(ctx, work context.Context) error {
	if s.kube != nil {
		s.kube.await(ctx, work)
	}
	bound, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	for !s.seenAll() && work.Err() == nil {
		if (clock.Wall{}).Sleep(bound, 5*time.Millisecond) != nil {
			break
		}
	}
	if s.fleet != nil && s.listeners.report != nil && work.Err() == nil {
		_ = s.fleet.WaitReported(bound) // late reports only mean an unknown cache at first
	}
	a := s.Addresses()
	if s.opts.AddrFile != "" {
		if err := writeAddresses(s.opts.AddrFile, a); err != nil {
			return err
		}
	}
	if ctx.Err() != nil || work.Err() != nil {
		return nil
	}
	s.health.welcome()
	attrs := []any{
		slog.Int(logkey.Pods, len(s.pool.Targets())),
		slog.String(logkey.Gateway, a.Gateway), slog.String(logkey.Extproc, a.Extproc), slog.String(logkey.Admin, a.Admin),
	}
	if a.Events != "" {
		attrs = append(attrs, slog.String(logkey.Events, a.Events))
	}
	s.log.Info("ready", attrs...)
	if s.opts.Ready != nil {
		s.opts.Ready(a)
	}
	return nil
}

// seenAll reports whether every pod was scraped, has listed its models, and is
// listened to if it publishes KV events.
func (s *Server) seenAll() bool {
	for _, v := range s.pool.Views() {
		if v.Scrapes == 0 || !v.Listed {
			return false
		}
	}
	return s.feeds == nil || s.feeds.Settled(s.pool.Feeds())
}

// untilTheEnd waits for the signal, for a part that fails, or for the end of
// the built-in traffic.
func (s *Server) untilTheEnd(ctx, work context.Context) error {
	if s.opts.Load != nil {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(work, cancel)()
		err := s.runLoad(ctx)
		if err != nil || !s.opts.Load.Stay {
			return err
		}
	}
	select {
	case <-ctx.Done():
		s.log.Info("shutting down", slog.Int(logkey.Open, s.picker.Open()),
			slog.Int(logkey.ExtprocConnections, s.listeners.extproc.connections()), slog.Int(logkey.GatewayConnections, s.listeners.gateway.connections()))
	case <-work.Done():
	}
	return nil
}

// linger goes on serving while there are clients that may not have heard of the
// end.
func (s *Server) linger(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Linger)
	defer cancel()
	c := clients{
		quiet: s.opts.quiet, extproc: s.listeners.extproc.connections, gateway: s.listeners.gateway.connections,
		requests: func() uint64 { return s.gateway.Stats().Requests },
	}
	c.gone(ctx)
}

// drain lets the requests of gateway and ext_proc finish, for the drain time at
// most. New ones are refused from now on.
func (s *Server) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Drain)
	defer cancel()
	var draining sync.WaitGroup
	var cut atomic.Bool
	if s.extproc != nil {
		draining.Go(func() {
			if !s.extproc.stop(ctx) {
				cut.Store(true)
			}
		})
	}
	for _, n := range s.servers {
		if n.name == "gateway" {
			draining.Go(func() {
				if n.server.Shutdown(ctx) != nil {
					cut.Store(true)
				}
			})
		}
	}
	draining.Wait()
	if cut.Load() {
		s.log.Warn("drain time is over, running requests are cut", slog.Int(logkey.Open, s.picker.Open()))
	}
}

// endScorers waits a little for custom scorers that overran their deadline.
func (s *Server) endScorers() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.picker.Close(ctx); err != nil {
		s.log.Error("ending without waiting for them", slog.String(logkey.Error, err.Error()))
	}
}

// end ends the servers, and what gateway and ext_proc still have to do with them.
func (s *Server) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if s.extproc != nil {
		s.extproc.end()
	}
	s.health.server.Stop() // who watches would stay
	for _, n := range s.servers {
		if n.name == "gateway" {
			_ = n.server.Close() // it has been drained
			continue
		}
		if err := n.server.Shutdown(ctx); err != nil {
			_ = n.server.Close() // a caller that does not go
		}
	}
}
