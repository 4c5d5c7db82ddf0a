package serve

import (
	"net/http"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/buildinfo"
	"github.com/eppctl/eppctl/score"
)

func (s *Server) adminHandler() http.Handler {
	deps := admin.Deps{
		Decisions: s.store, Picker: s.picker, Pods: s.pool.Views, Drain: s.pool.Drain, Tree: s.tree.Stats, Fleet: s.watch, Names: s.picker.Names, Config: s.effective,
		Level: s.opts.Level, Version: buildinfo.Read(), Clock: s.clock, Logger: s.log, AllowWrite: s.opts.AllowWrite,
		Access: s.opts.Access,
	}
	if s.fleet != nil {
		deps.Sim = s.fleet.Handler()
	}
	return admin.NewServer(deps)
}

// effective is the configuration in force, for the admin API. It holds no secret.
func (s *Server) effective() any {
	c := s.opts.Config
	if effective, err := c.Effective(s.opts.Custom); err == nil { // it was valid at the start
		c = effective
	}
	w := s.picker.Weights() // they may have been changed since
	for f := range w.Factors() {
		c.Weights[weightKey(w, f)] = w.Weight(f)
	}
	a := s.Addresses()
	c.Addresses.Gateway, c.Addresses.Extproc, c.Addresses.Health, c.Addresses.Metrics = a.Gateway, a.Extproc, a.Health, a.Metrics
	c.Addresses.Admin, c.Addresses.Report, c.Events.Listen = a.Admin, a.Report, a.Events
	out := map[string]any{
		"config": c, "policy": s.opts.Policy.String(), "recordDir": s.opts.RecordDir, "recordMemoryBytes": s.opts.RecordMemory,
		"timeScale": s.clock.Scale(), "allowWrite": s.opts.AllowWrite, "drainSeconds": s.opts.Drain.Seconds(),
		"extprocTLS": s.tlsMode(), "reportTLS": s.opts.TLS.Reports, "adminAuth": s.opts.Access != nil, "maxBodyBytes": s.opts.MaxBody, "maxBodiesBytes": s.opts.MaxBodies,
	}
	if s.kube != nil {
		out["kube"] = s.kube.shown()
	}
	return out
}

// weightKey is a factor's key in a configuration.
func weightKey(w *score.Weights, f int) string {
	if f < score.NumFactors {
		return [score.NumFactors]string{"cache", "load", "queue", "health", "adapter"}[f]
	}
	return w.FactorName(f)
}
