// Package clock gives the picker and the simulated fleet one notion of time.
//
// The one idea: everything that belongs to the world being routed (intervals,
// staleness limits, ages, record times, simulated engine steps) asks a [Clock],
// so that a simulated fleet can run at twenty times the speed of the wall
// without any limit changing its meaning. What belongs to this process (stage
// timings, scorer deadlines, HTTP timeouts) is wall time and does not use it.
//
// It does not schedule anything and keeps no timers of its own.
package clock

import (
	"context"
	"time"
)

// Clock tells the time and waits for it to pass.
type Clock interface {
	// Now is the current time of this clock.
	Now() time.Time
	// Sleep waits until d of this clock's time has passed, or ctx ends, whose
	// cause it then returns.
	Sleep(ctx context.Context, d time.Duration) error
	// Scale is how many of this clock's seconds pass in one second of wall time.
	Scale() float64
}

// Wall is the ordinary clock.
type Wall struct{}

// Now implements [Clock].
func (Wall) Now() time.Time { return time.Now() }

// Sleep implements [Clock].
func (Wall) Sleep(ctx context.Context, d time.Duration) error { return sleep(ctx, d) }

// Scale implements [Clock]: 1.
func (Wall) Scale() float64 { return 1 }

// Scaled is a clock that runs a constant factor faster than the wall's.
// It starts at the wall's time, and is safe for concurrent use.
type Scaled struct {
	origin time.Time
	speed  float64
}

// NewScaled starts a clock of the given speed (> 0; 20 means that one second
// of wall time is twenty of its own).
func NewScaled(speed float64) *Scaled {
	return &Scaled{origin: time.Now(), speed: speed}
}

// Now implements [Clock]. It is monotonic, as the wall clock's reading is.
func (c *Scaled) Now() time.Time {
	return c.origin.Add(time.Duration(float64(time.Since(c.origin)) * c.speed))
}

// Sleep implements [Clock].
func (c *Scaled) Sleep(ctx context.Context, d time.Duration) error {
	return sleep(ctx, time.Duration(float64(d)/c.speed))
}

// Scale implements [Clock].
func (c *Scaled) Scale() float64 { return c.speed }

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
