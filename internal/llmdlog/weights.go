package llmdlog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// group is the runs of one profile with the same scorers: they have one set of
// weights. What the configuration does not tell is solved from their totals.
type group struct {
	scorers  []string
	prior    []float64 // what the weights are taken for as long as nothing says otherwise
	weights  []float64
	decimals int // that the prior has from a configuration line; 0 when it is from none
	from     string
	settled  bool
	given    bool // the user's, which nothing overrules
	rows     []row
	runs     int // that rows are from
	tries    int
	held     []heldRun
}

// heldRun is a finished run that waits for its weights.
type heldRun struct {
	request *request
	run     *run
}

const (
	maxGroups = 64
	maxRows   = 1024 // totals that weights are solved from
	maxHeld   = 64   // runs that wait for their weights
	maxTries  = 64   // at solving, once there are weights
)

// defaults are the weights of the shipped configuration; any other scorer has the
// default of 1.
var defaults = map[string]float64{"queue-scorer": 2, "kv-cache-utilization-scorer": 2, "prefix-cache-scorer": 3}

const assumed = "assumed to be the defaults"

// groupOf finds the group of a run.
func (p *Parser) groupOf(proc *process, r *run) *group {
	key := r.profile + "\x00" + strings.Join(r.scorers, "\x00")
	g := proc.groups[key]
	if g == nil {
		g = p.newGroup(proc, r)
		if len(proc.groups) >= maxGroups {
			g.settled = true // and not kept: its weights are never solved
			return g
		}
		proc.groups[key] = g
	}
	return g
}

func (p *Parser) newGroup(proc *process, r *run) *group {
	g := &group{scorers: slices.Clone(r.scorers), prior: make([]float64, len(r.scorers)), from: assumed}
	for i, scorer := range g.scorers {
		g.prior[i] = 1
		if w, ok := defaults[typeOf(scorer)]; ok {
			g.prior[i] = w
		}
	}
	if configured, decimals := proc.configured(r.profile, g.scorers); configured != nil {
		g.prior, g.decimals, g.settled, g.from = configured, decimals, true, "the configuration in the log"
	}
	set := 0
	for i, scorer := range g.scorers {
		for _, name := range []string{scorer, plain(scorer), typeOf(scorer)} {
			if w, ok := p.opt.Weights[name]; ok {
				g.prior[i] = w
				set++
				break
			}
		}
	}
	if set > 0 {
		g.given, g.settled, g.from = true, true, "given"+rest(set, len(g.scorers), g.from)
	}
	g.settled = g.settled || len(g.scorers) == 0
	g.weights = g.prior
	return g
}

// rest says where the weights are from that were not given.
func rest(set, all int, from string) string {
	if set == all {
		return ""
	}
	return fmt.Sprintf(" for %d of %d scorers, else %s", set, all, from)
}

// learn adds a run's totals. Weights that give them are kept; others are solved anew.
func (g *group) learn(r *run) {
	rows := r.rows()
	if g.given || g.settled && reproduces(g.weights, rows) || g.settled && g.tries >= maxTries {
		return
	}
	before, settled := len(g.rows), g.settled
	if len(g.rows)+len(rows) <= maxRows {
		g.rows = append(g.rows, rows...)
		g.runs++
	}
	if settled {
		g.tries++
	}
	if !g.solve(false) && settled && g.decimals == 0 && len(g.rows) > before {
		g.rows = g.rows[:before] // one damaged line must not decide
		g.runs--
	}
}

// solve finds weights that give all totals. With last, what the totals leave open
// is taken from the prior; else the group waits for more of them. It reports
// whether there are weights that give them all.
func (g *group) solve(last bool) bool {
	weights, open := closest(g.prior, g.rows)
	weights, exact := shortest(weights, g.rows)
	switch {
	case g.decimals > 0: // the configuration is right, but printed with few decimals
		if exact && g.rounds(weights) {
			g.weights = weights
			g.from = "the configuration in the log, with the decimals that it lacks solved from totals"
		}
		return exact
	case !exact && (g.settled || !last):
		return false
	case len(open) > 0 && !g.settled && !last:
		return true
	}
	g.from, g.settled = g.source(weights, open, exact), true
	if g.weights = weights; !exact {
		g.weights = g.prior
	}
	return exact
}

// source says in words where solved weights come from.
func (g *group) source(weights []float64, open []int, exact bool) string {
	sample := fmt.Sprintf("%d totals of %s", len(g.rows), runs(g.runs))
	switch {
	case len(g.rows) == 0:
		return assumed
	case !exact:
		return assumed + ", though no fixed weights give the totals"
	case len(open) == 0:
		return "solved from " + sample + ", all of which they give"
	case slices.Equal(weights, g.prior):
		return assumed + ", which give all " + sample
	}
	return "solved from " + sample + ", all of which they give; how " + strings.Join(g.names(open), ", ") +
		" share their part is open, and taken to be as near the defaults as can be"
}

func runs(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}

func (g *group) names(at []int) []string {
	out := make([]string, len(at))
	for i, k := range at {
		out[i] = plain(g.scorers[k])
	}
	return out
}

// rounds reports whether the weights print as those of the configuration.
func (g *group) rounds(weights []float64) bool {
	for i, w := range weights {
		if strconv.FormatFloat(w, 'f', g.decimals, 64) != strconv.FormatFloat(g.prior[i], 'f', g.decimals, 64) {
			return false
		}
	}
	return true
}

// settle ends the wait of all runs of a process for their weights.
func (p *Parser) settle(proc *process) {
	for _, g := range proc.groups {
		if !g.settled {
			g.solve(true)
			g.settled = true
		}
		p.release(g)
	}
}

// release makes the records of the runs that waited.
func (p *Parser) release(g *group) {
	for _, h := range g.held {
		p.record(h.request, h.run, g)
	}
	g.held = nil
}
