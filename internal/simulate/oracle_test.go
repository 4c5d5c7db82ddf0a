package simulate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/record"
)

// What comes late or not at all costs eppctl cache hits, and the oracle nothing: it
// knows what pods hold whatever they tell.
func TestOracleKnowsWhatNobodyTells(t *testing.T) {
	tr := generated(t, "gen:chat:requests=600:rate=40:think=2", 1)
	cfg := fleetOf(t, tr, "8", "oracle", "eppctl")
	told := mustRun(t, cfg).Runs
	for name, change := range map[string]func(*Profile){
		"events that take 10 s":   func(p *Profile) { p.Intervals.Events = Duration(10 * time.Second) },
		"reports that are lost":   func(p *Profile) { p.Cache, p.Intervals.Report = byReports, Duration(time.Hour) },
		"scrapes that are so old": func(p *Profile) { p.Intervals.Metrics = Duration(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fleetOf(t, tr, "8", "oracle", "eppctl")
			change(cfg.Profile)
			runs := mustRun(t, cfg).Runs
			if diff := cmp.Diff(told[0].Outcomes, runs[0].Outcomes); diff != "" {
				t.Errorf("the oracle was misled (-told +not):\n%s", diff)
			}
			if cmp.Equal(runs[0].Outcomes, runs[1].Outcomes) {
				t.Error("eppctl picked as the oracle did")
			}
			if knows, guesses := cached(&runs[0]), cached(&runs[1]); cfg.Profile.Intervals.Metrics < Duration(time.Hour) && guesses > knows*95/100 {
				t.Errorf("eppctl found %d tokens cached, the oracle %d; want fewer by 5 %% at least", guesses, knows)
			}
		})
	}
}

func cached(r *PolicyRun) (tokens int) {
	for _, o := range r.Outcomes {
		tokens += int(o.Cached)
	}
	return tokens
}

// The queues that the oracle goes by are those of the engines, no request counts twice.
func TestOracleKnowsQueues(t *testing.T) {
	cfg := fleetOf(t, generated(t, "gen:rag:requests=300:rate=12", 1), "4", "oracle")
	q := &queues{t: t}
	cfg.Recorder = q
	r, err := newRun(cfg, cfg.Policies[0])
	if err != nil {
		t.Fatal(err)
	}
	q.run = r
	if err := r.simulate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if q.waited == 0 {
		t.Error("no request ever waited: nothing was compared")
	}
}

// queues is a recorder that compares the queues of a decision with those of the pods.
type queues struct {
	unrecorded
	t      *testing.T
	run    *run
	waited int
}

func (q *queues) Append(e *record.Entry) record.Handle {
	pods := q.run.router.(*picking).byName
	for i := range e.Inputs.Pods {
		s := &e.Inputs.Pods[i]
		_, waiting := q.run.pods[pods[s.Pod]].engine.Load()
		if depth, known := s.QueueDepth(); !known || depth != float64(waiting) {
			q.t.Errorf("at %v %s: depth %v (known: %v), and %d wait", q.run.now, s.Pod, depth, known, waiting)
		}
		q.waited += waiting
	}
	return 0
}
