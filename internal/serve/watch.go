package serve

import (
	"strings"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/buildinfo"
	"github.com/eppctl/eppctl/internal/fleet"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// newWatch makes what follows the fleet for the admin API.
func (s *Server) newWatch() *fleet.Watch {
	router := explain.RouterState{Version: buildinfo.Read().Version, Replica: s.opts.Replica}
	if k := s.opts.Kube; k != nil {
		var pools []string
		for _, pool := range k.Pools {
			pools = append(pools, pool.String())
		}
		router.Pool = strings.Join(pools, ", ")
	}
	config := fleet.Config{
		Clock: s.clock, Pods: s.pool.Views, Tree: s.tree.Stats,
		Weights: func() *score.Weights { return s.picker.Weights() }, Open: func() int { return s.picker.Open() },
		Router: router, Models: s.models, Policy: s.opts.Policy.String(),
	}
	if s.opts.Election != nil {
		config.Role = s.role
	}
	if s.opts.Kube != nil {
		config.Silence = func() *explain.Silence { return s.kube.silence() }
	}
	return fleet.New(config)
}

// models are the base models that are served, in words.
func (s *Server) models() string {
	const most = 3
	names := s.pool.BaseModels()
	if n := len(names); n > most {
		names = append(names[:most:most], "…")
	}
	return strings.Join(names, ", ")
}

// observers are several that are told, one after another.
type observers []picker.Observer

// Picked implements [picker.Observer].
func (o observers) Picked(e *record.Entry) {
	for _, one := range o {
		one.Picked(e)
	}
}

// Completed implements [picker.Observer].
func (o observers) Completed(p *picker.Pick, outcome *record.Outcome, stale bool) {
	for _, one := range o {
		one.Completed(p, outcome, stale)
	}
}

// ScorerFailed implements [picker.Observer].
func (o observers) ScorerFailed(name string, how picker.Failure) {
	for _, one := range o {
		one.ScorerFailed(name, how)
	}
}
