package serve

import (
	"reflect"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/naming"
)

// takeNames makes what a cluster's resources say of the names of models known to the
// picker, and returns the conflicts that its owners should know. It is for one caller.
func (s *Server) takeNames() func(*kube.State) []conflict {
	var before []naming.Rule
	var told []conflict
	last := new(kube.State)
	return func(state *kube.State) []conflict {
		same := len(last.Pools) > 0 && slices.Equal(last.Models, state.Models) && slices.Equal(last.Rewrites, state.Rewrites)
		if last = state; same {
			return told // pods have changed
		}
		pools := make([]kube.Name, 0, len(state.Pools))
		for _, p := range state.Pools {
			pools = append(pools, p.Name)
		}
		rules := kube.Rules(state.Models, state.Rewrites, pools)
		if reflect.DeepEqual(rules, before) {
			return told
		}
		before = rules
		table, conflicts := naming.NewTable(rules)
		s.picker.SetNames(table)
		told = conflictsOf(state, conflicts)
		return told
	}
}

// registerNames adds the rules for names of models to the metrics page.
func (s *Server) registerNames() error {
	for _, g := range []prometheus.Collector{
		prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "epp_model_names", Help: "Names of models that a rule is in force for."},
			func() float64 { return float64(s.picker.Names().Len()) },
		),
		prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "epp_model_name_conflicts", Help: "Rules for names of models that do not count, because another one does or they can't be followed."},
			func() float64 { return float64(len(s.picker.Names().Conflicts())) },
		),
	} {
		if err := s.metrics.Registry().Register(g); err != nil {
			return err
		}
	}
	return nil
}
