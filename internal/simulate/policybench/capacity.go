package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/eppctl/eppctl/internal/simulate"
	"github.com/eppctl/eppctl/score"
)

const (
	profile  = "llama-8b"
	slo      = "ttft=5s+2x,tpot=200ms"
	baseline = "least-connections"
	// The capacity is the highest rate at which so many of the baseline's requests are
	// good. It is between two rates that are apart by the tolerance at most, and the
	// lower one is taken.
	enough    = 0.95
	tolerance = 1.05
	// The first rate that is tried, for each pod. If a fleet's capacity is further from
	// it than a factor of farthest, something is wrong with the trace.
	firstGuess = 0.1 // requests a second
	farthest   = 1000.0
)

// A fleet is what one trace is run on at several rates.
type fleet struct {
	trace    *simulate.Trace
	profile  *simulate.Profile
	pods     []simulate.Pod
	slo      *simulate.SLO
	progress io.Writer
}

func newFleet(trace *simulate.Trace, pods string, progress io.Writer) (*fleet, error) {
	f := &fleet{trace: trace, progress: progress}
	var err error
	if f.profile, err = simulate.ProfileNamed(profile); err != nil {
		return nil, err
	}
	if f.pods, err = f.profile.Fleet(pods); err != nil {
		return nil, err
	}
	f.slo, err = simulate.ParseSLO(slo)
	return f, err
}

// at simulates policies with so many arrivals a second.
func (f *fleet) at(ctx context.Context, rate float64, names ...string) (*simulate.Report, error) {
	trace := *f.trace
	trace.Requests = slices.Clone(trace.Requests)
	if err := trace.Scale(rate / trace.Rate()); err != nil {
		return nil, err
	}
	cfg := &simulate.Config{Trace: &trace, Profile: f.profile, Pods: f.pods, Seed: 1}
	for _, name := range names {
		p, err := simulate.ParsePolicy(name, score.Default())
		if err != nil {
			return nil, err
		}
		cfg.Policies = append(cfg.Policies, p)
	}
	runs, err := simulate.Run(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return runs.Report(simulate.ReportOptions{SLO: f.slo, Baseline: baseline}), nil
}

// capacity is the fleet's in requests a second.
func (f *fleet) capacity(ctx context.Context) (float64, error) {
	return highest(firstGuess*float64(len(f.pods)), func(rate float64) (bool, error) {
		r, err := f.at(ctx, rate, baseline)
		if err != nil {
			return false, err
		}
		good := *r.Policies[0].GoodRatio
		fmt.Fprintf(f.progress, "%d pods: %s at %.3f a second: %.1f %% good\n", len(f.pods), baseline, rate, 100*good)
		return good >= enough, nil
	})
}

// highest is a rate that is good, while one that is higher by the tolerance is not. It
// steps away from the guess by factors of 2 until it has one of both, and halves the
// ratio of the two after that.
func highest(guess float64, good func(rate float64) (bool, error)) (float64, error) {
	low, high := 0.0, math.Inf(1)
	for rate := guess; low == 0 || high/low > tolerance; {
		if rate < guess/farthest || rate > guess*farthest {
			return 0, fmt.Errorf("no capacity between %g and %g requests a second", guess/farthest, guess*farthest)
		}
		ok, err := good(rate)
		if err != nil {
			return 0, err
		}
		if ok {
			low = rate
		} else {
			high = rate
		}
		switch {
		case low == 0:
			rate = high / 2
		case math.IsInf(high, 1):
			rate = low * 2
		default:
			rate = math.Sqrt(low * high)
		}
	}
	return low, nil
}
