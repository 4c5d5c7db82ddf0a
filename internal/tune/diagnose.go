package tune

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/eppctl/eppctl/score"
)

// From when on a figure is a symptom. Shares are of picks or of prompt tokens.
const (
	someReuse     = 0.05 // of tokens were in an earlier prompt
	muchLost      = 0.03 // of tokens, between two steps of the ladder
	muchEvicted   = 0.10
	someDeep      = 0.03 // of picks
	muchDeep      = 0.20
	hotShare      = 1.5 // times the even share of picks
	someSick      = 0.05
	someStale     = 0.03
	muchStale     = 0.05
	thrashLoads   = 2.0 // a pod and minute
	oneAdapter    = 0.5 // of all loads
	adaptersOfPod = 4   // that a pod serves without thrashing, 3 to 5
	mostMissing   = 0.5 // of candidates
)

// diagnosis makes findings.
type diagnosis struct {
	*tally
	w        *score.Weights
	ideal    int     // tokens that an earlier prompt had
	tokens   int     // of all prompts
	minutes  float64 // of traffic
	interval float64 // of reports, in ms; 0: not known
	out      []*Finding
}

// run looks for every symptom, in the order of the ladder, then of the pods.
func (d *diagnosis) run() []*Finding {
	d.cache()
	d.load()
	d.queues()
	d.thrash()
	d.degraded()
	d.staleness()
	d.queueLimit()
	d.missing()
	return d.out
}

func (d *diagnosis) add(f *Finding) { d.out = append(d.out, f) }

func (d *diagnosis) reuse() float64 { return ratio(d.ideal, d.tokens) }

// cache goes down the ladder: what could have been in a cache, and where it was lost.
func (d *diagnosis) cache() {
	if reuse := d.reuse(); reuse < someReuse && d.tokens > 0 {
		d.add(&Finding{
			Code: CodeNoReuse, Evidence: []Figure{{"reuse", reuse, unitShare}},
			Text: fmt.Sprintf("only %s of the prompts' tokens were in an earlier prompt: there is next to nothing that a cache could serve", percent(reuse)),
			Do:   "do not raise the weight of cache: it has nothing to work with; load and queues are what is left to go by",
		})
		return
	}
	evicted, full, outweighed := ratio(d.ideal-d.kept, d.prompt), ratio(d.full, d.prompt), ratio(d.lostToScores(), d.prompt)
	if evicted >= muchEvicted {
		d.add(&Finding{
			Code: CodeCacheEvicted, Evidence: []Figure{{"evicted", evicted, unitShare}, {"reuse", d.reuse(), unitShare}},
			Text: fmt.Sprintf("%s of the prompts' tokens had been in an earlier prompt and no pod held them any more", percent(evicted)),
			Do:   "no weight brings them back: more KV memory, more pods, or an offload tier",
		})
	}
	if full >= muchLost {
		d.add(&Finding{
			Code: CodeOwnerFull, Evidence: []Figure{{"behindFullQueues", full, unitShare}, {"maxQueue", float64(d.w.MaxQueue), "requests"}},
			Text:  fmt.Sprintf("%s of the prompts' tokens were on pods that a full queue kept out", percent(full)),
			Lever: KeyMaxQueue, Do: "raise maxQueue", Risk: riskDeeper, moves: queueMoves(d.w, true),
		})
	}
	if outweighed >= muchLost {
		d.outweigh(outweighed)
	}
}

// lostToScores are the tokens that the picked pod had less than another that could
// have been picked.
func (d *diagnosis) lostToScores() int { return d.available - d.predicted }

func (d *diagnosis) outweigh(share float64) {
	by := d.outweighers()
	d.add(&Finding{
		Code: CodeCacheOutweighed,
		Evidence: []Figure{
			{"reuse", d.reuse(), unitShare},
			{"couldBePicked", ratio(d.available, d.prompt), unitShare},
			{"picked", ratio(d.predicted, d.prompt), unitShare},
			{"outweighed", share, unitShare},
		},
		Text:  fmt.Sprintf("%s of the prompts' tokens were in the cache of a pod that could have been picked and was not, for %s", percent(share), by[0]),
		Lever: "cache", Do: "raise the weight of cache, taken from " + by[0], Risk: riskCache, moves: movesFor(d.w, "cache", by),
	})
}

// outweighers are the weights that the cache lost against, the most tokens first.
func (d *diagnosis) outweighers() []string {
	names := map[string]string{"load": "load", "queueDepth": "queue", "tieLoad": "load", "tieQueue": "queue"}
	lost := map[string]int{"load": 0}
	for by, tokens := range d.outweighed {
		if key, ok := names[by]; ok {
			lost[key] += tokens
		}
	}
	keys := slices.Sorted(maps.Keys(lost))
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(lost[b], lost[a]) })
	return keys
}

// load finds pods that are busy all the time while others idle.
func (d *diagnosis) load() {
	var hot []string
	coolest, share := 1.0, 0.0
	for _, name := range slices.Sorted(maps.Keys(d.pods)) {
		p := d.pods[name]
		if p.seen == 0 {
			continue
		}
		mean := p.load / float64(p.seen)
		coolest = min(coolest, mean)
		if part := ratio(p.picks, d.picks); mean >= hotLoad && part*float64(len(d.pods)) >= hotShare {
			hot, share = append(hot, name), share+part
		}
	}
	if len(hot) == 0 || coolest > coolLoad {
		return
	}
	d.add(&Finding{
		Code: CodeHotPods,
		Evidence: []Figure{
			{"hotPods", float64(len(hot)), unitPods},
			{"theirPicks", share, unitShare},
			{"loadOfTheCoolest", coolest, unitShare},
			{"picksOfHotWhileOthersIdle", ratio(d.hot, d.picks), unitShare},
		},
		Text:  fmt.Sprintf("%s got %s of the picks and was busy all the time, while the coolest pod was at %s", hot[0], percent(share), percent(coolest)),
		Lever: "load", Do: "raise the weight of load, taken from cache", Risk: riskLoad, moves: movesFor(d.w, "load", []string{"cache"}),
	})
}

// queues finds requests that were sent into a queue while another was short.
func (d *diagnosis) queues() {
	deep, everywhere := ratio(d.deep, d.picks), ratio(d.deepEverywhere, d.picks)
	if everywhere >= muchDeep {
		d.add(&Finding{
			Code: CodeDeepEverywhere, Evidence: []Figure{{"picksWithAllDeep", everywhere, unitShare}},
			Text: fmt.Sprintf("at %s of the picks every queue was deep", percent(everywhere)),
			Do:   "no weight shortens all queues: more pods, or fewer requests",
		})
	}
	if deep < someDeep {
		return
	}
	d.add(&Finding{
		Code: CodeDeepQueues, Evidence: []Figure{{"picksIntoDeepQueues", deep, unitShare}, {"maxQueue", float64(d.w.MaxQueue), "requests"}},
		Text:  fmt.Sprintf("%s of the picks went into a queue of %d and more while another was at most half as deep", percent(deep), deepQueue),
		Lever: "queue", Do: "raise the weight of queue, taken from cache, or lower maxQueue; not the weight of load", Risk: riskQueue + "; " + riskMaxQueue,
		moves: slices.Concat(movesFor(d.w, "queue", []string{"cache"}), queueMoves(d.w, false)),
	})
}

// thrash finds adapters that are loaded again and again.
func (d *diagnosis) thrash() {
	pods := len(d.pods)
	if len(d.adapters) == 0 || d.minutes == 0 || float64(d.loads)/d.minutes < thrashLoads*float64(pods) {
		return
	}
	top, most := "", adapterTally{}
	for _, name := range slices.Sorted(maps.Keys(d.adapters)) {
		if a := d.adapters[name]; a.loads > most.loads {
			top, most = name, *a
		}
	}
	room := adaptersOfPod
	if d.slots > 0 {
		room = min(room, d.slots)
	}
	f := &Finding{
		Code: CodeThrashSpread,
		Evidence: []Figure{
			{"loads", float64(d.loads), unitCount},
			{"loadsPerMinute", math.Round(10*float64(d.loads)/d.minutes) / 10, "1/min"},
			{"adapters", float64(len(d.adapters)), unitCount},
			{"pods", float64(pods), unitPods},
			{"adaptersOfAPod", float64(room), unitCount},
		},
		Text:  fmt.Sprintf("picks made engines load an adapter %d times, spread over %d adapters", d.loads, len(d.adapters)),
		Lever: "adapter", Do: "raise the weight of adapter to 0.15 or 0.20, taken from cache or load", Risk: riskAdapter,
		moves: movesFor(d.w, "adapter", []string{"cache", "load"}),
	}
	switch {
	case len(d.adapters) > room*pods:
		f.Code, f.Lever, f.Risk, f.moves = CodeThrashTooMany, "", "", nil
		f.Text = fmt.Sprintf("%d adapters on %s, of which each serves %d without thrashing: this can't be tuned away", len(d.adapters), podsText(pods), room)
		f.Do = "more pods, more adapter slots, or fewer adapters in one pool"
	case float64(most.loads) >= oneAdapter*float64(d.loads):
		f.Code = CodeThrashConcentrated
		f.Text = fmt.Sprintf("picks made engines load an adapter %d times, %d of them %s: its requests go to too many pods", d.loads, most.loads, top)
	}
	d.add(f)
}

// degraded finds picks of pods that are not well.
func (d *diagnosis) degraded() {
	share := ratio(d.sick, d.picks)
	if share < someSick {
		return
	}
	d.add(&Finding{
		Code: CodeDegraded, Evidence: []Figure{{"picksOfDegraded", share, unitShare}},
		Text:  fmt.Sprintf("%s of the picks went to a pod with a health below %v while a sound one could have been picked", percent(share), sickHealth),
		Lever: "health", Do: "raise the weight of health, taken from cache", Risk: riskHealth, moves: movesFor(d.w, "health", []string{"cache"}),
	})
}

// staleness finds picks that were made on caches that were gone.
func (d *diagnosis) staleness() {
	share := ratio(d.stale, d.judged)
	if share <= someStale {
		return
	}
	f := &Finding{
		Code: CodeStale, Evidence: []Figure{{"stale", share, unitShare}, {"judged", float64(d.judged), unitCount}},
		Text: fmt.Sprintf("at %s of the requests the engine found less in its cache than the picker expected (3 to 5 %% is the limit)", percent(share)),
		Do:   "caches change faster than the picker hears: more KV memory, or more pods",
	}
	if by := d.staleBy[score.SourceReport.String()]; 2*by >= d.stale {
		f.Lever, f.Do, f.Risk = KeyReportInterval, "shorten podReportIntervalMs to 500 to 1000", riskInterval
		f.Evidence = append(f.Evidence, Figure{"reportInterval", d.interval, "ms"})
		f.moves = intervalMoves(d.interval)
	} else if assumed := d.staleBy[score.SourceAssumed.String()]; 2*assumed >= d.stale {
		f.Do = "caches are only assumed: turn KV events or status reports on"
	}
	if share <= muchStale {
		f.Text += "; watch it"
	}
	d.add(f)
}

// queueLimit finds a maxQueue that suits no workload.
func (d *diagnosis) queueLimit() {
	n := d.w.MaxQueue
	if n >= leastMaxQueue && n <= mostMaxQueue {
		return
	}
	to, risk := leastMaxQueue, riskDeeper
	if n > mostMaxQueue {
		to, risk = mostMaxQueue, riskMaxQueue
	}
	d.add(&Finding{
		Code: CodeMaxQueue, Evidence: []Figure{{KeyMaxQueue, float64(n), "requests"}},
		Text:  fmt.Sprintf("maxQueue is %d; 8 to 12 suits traffic that must not wait, 30 to 40 batches", n),
		Lever: KeyMaxQueue, Do: fmt.Sprintf("set maxQueue to %d", to), Risk: risk,
		moves: []*Move{{Key: KeyMaxQueue, From: float64(n), To: float64(to)}},
	})
}

// missing finds weights whose input is not there.
func (d *diagnosis) missing() {
	for f, key := range score.WeightKeys() {
		share := ratio(d.unknown[f], d.candidates)
		if share < mostMissing || weightOf(d.w, key) == 0 || f == score.AdapterMatch && len(d.adapters) == 0 {
			continue
		}
		d.add(&Finding{
			Code: CodeInputMissing, Evidence: []Figure{{key + "Missing", share, unitShare}},
			Text: fmt.Sprintf("the weight of %s has nothing to work with: its input was unknown or stale for %s of the candidates", key, percent(share)),
			Do:   "see what is missing with 'eppctl explain latest', before any weight is moved",
		})
	}
}

func ratio(a, b int) float64 {
	if b <= 0 {
		return 0
	}
	return max(0, float64(a)/float64(b))
}

func percent(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }

func podsText(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}
