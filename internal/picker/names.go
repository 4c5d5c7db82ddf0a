package picker

import (
	"fmt"
	"log/slog"

	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/naming"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/steering"
)

// named is what a request's model stands for.
type named struct {
	pool.Resolution
	pools   []string // that may serve it; nil = all
	rewrite record.Rewrite
}

// resolve finds out what the call asks for: a rule for the name decides, else the
// name of the route does, and what comes of that is looked up.
func (p *Picker) resolve(c *Call) (m named, err error) {
	asked := c.Request.Model
	if n, ok := p.names.Load().Name(asked, c.ID); ok {
		if n.To == "" {
			return m, unknown(fmt.Sprintf("the model %q does not exist: %s reserves the name, and gives no target a weight", asked, n.By))
		}
		m.Resolution, m.pools = p.cfg.Pool.ResolveTarget(n.To, n.Pools), n.Pools
		m.rewrite = record.Rewrite{
			To: m.Served, By: n.By, Criticality: n.Criticality, Weight: n.Weight, Sum: n.Sum, Targets: n.Targets,
		}
		return m, nil
	}
	name := asked
	if c.Route != "" && asked != "" {
		name = c.Route
	}
	m.Resolution = p.cfg.Pool.Resolve(name)
	if !m.Found && !m.Unchecked && name != "" {
		return m, unknown(fmt.Sprintf("the model %q does not exist", name))
	}
	if name != asked {
		m.rewrite = record.Rewrite{To: m.Served, By: steering.Model}
	}
	return m, nil
}

func unknown(detail string) *Refusal {
	return &Refusal{Status: 404, Reason: "model-not-found", Detail: detail}
}

// Names are the rules in force for the names of models; nil when there are none.
func (p *Picker) Names() *naming.Table { return p.names.Load() }

// mostConflicts bounds the lines of log that one table of names gives.
const mostConflicts = 20

// SetNames puts rules for the names of models in force, for the requests to come;
// nil = none. Rules that do not count, and were not told before, are logged.
func (p *Picker) SetNames(t *naming.Table) {
	told := map[naming.Conflict]bool{}
	for _, c := range p.names.Swap(t).Conflicts() {
		told[c] = true
	}
	lines := 0
	for _, c := range t.Conflicts() {
		if told[c] {
			continue
		}
		if lines++; lines > mostConflicts {
			p.cfg.Logger.Warn("more rules for names of models do not count", slog.Int(logkey.Conflicts, len(t.Conflicts())))
			return
		}
		p.cfg.Logger.Warn("a rule for the name of a model does not count",
			slog.String(logkey.Model, c.Model), slog.String(logkey.Rule, c.Loser), slog.String(logkey.Winner, c.Winner), slog.String(logkey.Reason, c.Why))
	}
}
