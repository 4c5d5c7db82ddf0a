package serve

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/picker"
)

// Election elects the replica that picks; a kube.Election does.
type Election interface {
	picker.Election
	// Run takes part until ctx ends, and gives back then what it held. changed is
	// called after every change of what the other methods say.
	Run(ctx context.Context, changed func()) error
}

// elect lets the health tell who leads.
func (s *Server) elect() {
	if e := s.opts.Election; e != nil {
		s.health.standby = func() string {
			if e.Leading() {
				return ""
			}
			return picker.Standby(e)
		}
	}
}

// standForElection takes part until ctx ends or the replica retires: one that is told
// to end picks no longer, so that another can. It is called when the pods are known.
func (s *Server) standForElection(ctx context.Context, g *errgroup.Group) (retire func()) {
	ctx, retire = context.WithCancel(ctx)
	if e := s.opts.Election; e != nil {
		g.Go(func() error { return e.Run(ctx, s.health.review) })
	}
	return retire
}

// role is this replica's, for the admin API.
func (s *Server) role() (role, leader string) {
	if s.opts.Election.Leading() {
		return explain.RoleLeader, s.opts.Replica
	}
	return explain.RoleStandby, s.opts.Election.Leader()
}

// registerElection adds whether this replica leads to the metrics page.
func (s *Server) registerElection() error {
	e := s.opts.Election
	if e == nil {
		return nil
	}
	return s.metrics.Registry().Register(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "epp_leader", Help: "1 while this replica is the one that picks, 0 while it is on standby."},
		func() float64 {
			if e.Leading() {
				return 1
			}
			return 0
		},
	))
}
