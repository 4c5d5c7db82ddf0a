package llmdlog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// row is what one pod's total says of the weights: Σ weight × value = total.
type row struct {
	values []float64
	total  float64
}

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

// rows are a run's equations: scores as they are summed, cut to 0…1.
func (r *run) rows() []row {
	var out []row
	for _, p := range r.pods {
		if p.excluded != "" || math.IsNaN(p.total) {
			continue
		}
		one := row{values: make([]float64, len(r.scorers)), total: p.total}
		for i, v := range p.scores {
			if v > 0 { // and not NaN
				one.values[i] = min(v, 1)
			}
		}
		out = append(out, one)
	}
	return out
}

// reproduces reports whether the weights give the totals bit by bit, as they are
// computed: product by product, in the order of the scorers.
func reproduces(weights []float64, rows []row) bool {
	for _, r := range rows {
		sum := 0.0
		for i, w := range weights {
			sum += float64(w * r.values[i])
		}
		if sum != r.total {
			return false
		}
	}
	return true
}

// solve finds weights that give all totals. With last, what the totals leave open
// is taken from the prior; else the group waits for more of them. It reports
// whether there are weights that give them all.
func (g *group) solve(last bool) bool {
	weights, open := closest(g.prior, g.rows)
	weights, exact := shortest(weights, g.rows)
	if g.decimals > 0 { // the configuration is right, but printed with few decimals
		if exact && g.rounds(weights) {
			g.weights = weights
			g.from = "the configuration in the log, with the decimals that it lacks solved from totals"
		}
		return exact
	}
	switch {
	case !exact && (g.settled || !last):
		return false
	case exact && len(open) == 0:
		g.from = fmt.Sprintf("solved from %d totals of %d runs, all of which they give", len(g.rows), g.runs)
	case exact && len(g.rows) > 0 && (last || g.settled):
		g.from = fmt.Sprintf("solved from %d totals of %d runs, all of which they give; these leave open how the weight is shared by %s, which is %s",
			len(g.rows), g.runs, strings.Join(g.names(open), ", "), assumed)
		if slices.Equal(weights, g.prior) {
			g.from = fmt.Sprintf("%s, which give all %d totals of %d runs", assumed, len(g.rows), g.runs)
		}
	case !last:
		return exact
	default:
		weights, g.from = g.prior, assumed
		if len(g.rows) > 0 {
			g.from += ", though no fixed weights give the totals"
		}
	}
	g.weights, g.settled = weights, true
	return exact
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

// closest solves the rows by least squares: of all weights that fit them best, those
// closest to the prior. Open are the scorers whose weight the rows don't determine.
//
// It takes one independent row after the other, the clearest first (Gram-Schmidt
// with pivoting), which is exact for totals that are what they claim to be.
func closest(prior []float64, rows []row) (weights []float64, open []int) {
	const tiny = 1e-6
	left := make([]row, len(rows))
	for i, r := range rows {
		left[i] = row{slices.Clone(r.values), r.total - dot(prior, r.values)}
	}
	weights = slices.Clone(prior)
	covered := make([]float64, len(prior)) // how much of each weight is determined
	for range prior {
		if len(left) == 0 {
			break
		}
		pivot := slices.MaxFunc(left, func(a, b row) int { return cmp.Compare(dot(a.values, a.values), dot(b.values, b.values)) })
		norm := math.Sqrt(dot(pivot.values, pivot.values))
		if !(norm > tiny) {
			break
		}
		unit := make([]float64, len(prior))
		for k, v := range pivot.values {
			unit[k] = v / norm
			covered[k] += unit[k] * unit[k]
		}
		along := pivot.total / norm
		for k := range weights {
			weights[k] += along * unit[k]
		}
		for i := range left {
			d := dot(left[i].values, unit)
			left[i].total -= d * along
			for k := range unit {
				left[i].values[k] -= d * unit[k]
			}
		}
	}
	for k, c := range covered {
		if c < 1-tiny {
			open = append(open, k)
		}
	}
	return weights, open
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// shortest rounds the weights to as few decimals as still give all totals: they were
// written by people. It reports false when no rounding does.
func shortest(weights []float64, rows []row) ([]float64, bool) {
	const most = 15
	for decimals := range most + 1 {
		rounded := make([]float64, len(weights))
		for i, w := range weights {
			rounded[i], _ = strconv.ParseFloat(strconv.FormatFloat(w, 'f', decimals, 64), 64)
		}
		if reproduces(rounded, rows) {
			return rounded, true
		}
	}
	return weights, reproduces(weights, rows)
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
