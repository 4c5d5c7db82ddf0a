package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eppctl/eppctl/internal/picker"
)

// Config is what a simulation needs.
type Config struct {
	Trace    *Trace
	Profile  *Profile
	Pods     []Pod
	Policies []*Policy
	Seed     uint64
	// Parallel is how many policies run at once; 0: as many as there are processors.
	Parallel int
	// Progress is called for each request that has arrived under one of the policies,
	// from several goroutines; nil: never.
	Progress func()
	// Recorder keeps what the picker decides, under policies that are its own; nil:
	// nobody does. It is meant for a run of one policy.
	Recorder picker.Recorder
}

// Runs are what came of each policy, in their order.
type Runs struct {
	Config *Config
	Runs   []PolicyRun
}

// A PolicyRun is what came of one policy. Outcomes are in the order of the trace's
// requests.
type PolicyRun struct {
	Policy   *Policy
	Outcomes []Outcome
	Pods     []PodRun
	End      time.Duration // of the last request
	Events   uint64        // that were simulated: steps, messages, arrivals
}

// A PodRun is what a pod did.
type PodRun struct {
	Pod
	Requests, QueueMax         int
	Input, Cached, Generated   int // tokens
	Preemptions, AdapterLoads  int
	Busy                       time.Duration
	UncachedToken, CachedToken time.Duration // what a token of a prompt costs there
}

// Run runs all policies. The error is the context's, or one of the configuration.
func Run(ctx context.Context, cfg *Config) (*Runs, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	out := &Runs{Config: cfg, Runs: make([]PolicyRun, len(cfg.Policies))}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(cfg.Parallel, runtime.GOMAXPROCS(0)))
	for i, p := range cfg.Policies {
		g.Go(func() (err error) {
			out.Runs[i], err = cfg.run(ctx, p)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

func (cfg *Config) check() error {
	switch {
	case cfg.Trace == nil || len(cfg.Trace.Requests) == 0:
		return errors.New("there is no request to simulate")
	case len(cfg.Pods) == 0:
		return errors.New("there is no pod to simulate")
	case len(cfg.Policies) == 0:
		return errors.New("there is no policy to simulate")
	}
	for _, f := range cfg.Profile.Faults {
		if cfg.podNamed(f.Pod) < 0 {
			return fmt.Errorf("faults: no pod %q among the %d of the fleet, sim-0 to sim-%d", f.Pod, len(cfg.Pods), len(cfg.Pods)-1)
		}
	}
	return nil
}

func (cfg *Config) podNamed(name string) int {
	return slices.IndexFunc(cfg.Pods, func(p Pod) bool { return p.Name == name })
}

// faults are the begins and ends of the profile's faults, in order.
func (cfg *Config) faults() []fault {
	var all []fault
	for _, f := range cfg.Profile.Faults {
		i := cfg.podNamed(f.Pod)
		all = append(all, fault{at: time.Duration(f.At), pod: i, slow: f.Slow})
		if f.For > 0 {
			all = append(all, fault{at: time.Duration(f.At) + time.Duration(f.For), pod: i, slow: f.Slow, over: true})
		}
	}
	slices.SortStableFunc(all, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return all
}

// run runs one policy.
func (cfg *Config) run(ctx context.Context, p *Policy) (PolicyRun, error) {
	r, err := newRun(cfg, p)
	if err != nil {
		return PolicyRun{}, fmt.Errorf("policy %s: %w", p.Name, err)
	}
	if err := r.simulate(ctx); err != nil {
		return PolicyRun{}, fmt.Errorf("policy %s: %w", p.Name, err)
	}
	out := PolicyRun{Policy: p, Outcomes: r.out, End: r.now, Events: r.events}
	for _, p := range r.pods {
		t := &p.tally
		out.Pods = append(out.Pods, PodRun{
			Pod: p.Pod, Requests: t.requests, QueueMax: t.queueMax, Input: t.input, Cached: t.cached, Generated: t.generated,
			Preemptions: t.preemptions, AdapterLoads: t.loads, Busy: t.busy,
			UncachedToken: p.cfg.Profile.Uncached, CachedToken: p.cfg.Profile.Cached,
		})
	}
	return out, nil
}
