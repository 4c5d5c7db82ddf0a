package health

import "time"

// Window is how long an error counts as new; it may count for half as long again.
const Window = 10 * time.Minute

// Counter finds out how many errors are new in a counter that only grows. The zero
// Counter has not been read: what it shows at first happened at some time before,
// and is not new.
type Counter struct {
	last  float64
	known bool
	// begun is when the current half of the window began; the numbers are the new
	// errors of this half and of the two before.
	begun  time.Duration
	halves [3]float64
}

// Read notes the counter's value. One that has fallen was reset, with the GPU:
// what was before is gone.
func (c *Counter) Read(value float64, at time.Duration) {
	c.turn(at)
	switch {
	case !c.known:
		c.known, c.begun = true, at
	case value < c.last:
		c.halves = [3]float64{value}
	default:
		c.halves[0] += value - c.last
	}
	c.last = value
}

// New is the number of new errors.
func (c *Counter) New(now time.Duration) Number {
	if !c.known {
		return Number{}
	}
	c.turn(now)
	return Of(c.halves[0] + c.halves[1] + c.halves[2])
}

// turn moves on to the half of the window that a moment is in.
func (c *Counter) turn(now time.Duration) {
	const half = Window / 2
	for range len(c.halves) {
		if now-c.begun < half {
			return
		}
		c.halves = [3]float64{0, c.halves[0], c.halves[1]}
		c.begun += half
	}
	c.begun = now
}
