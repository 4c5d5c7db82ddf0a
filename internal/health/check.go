package health

import "time"

const (
	// missesToFail in a row: one slow answer of a busy server is no news.
	missesToFail = 3
	// recoveryStep is how long it takes to win back another 0.1.
	recoveryStep = 2 * time.Second
	// recoveryStart is what the first success gives, in hundredths: the least with
	// which a pod takes part.
	recoveryStart = 30
)

// Recovery is how long a check that had failed goes on to cost something after
// its first success, if no other attempt fails.
const Recovery = (full - recoveryStart) / point * recoveryStep

// Check follows the results of something that is tried again and again:
//
//	well ── 3 failures in a row, or one that leaves no doubt ──▶ failed
//	failed ── 1 success ──▶ recovering, with 0.3
//	recovering ── every 2 s without a failure ──▶ 0.1 more, and well after 14 s
//	recovering ── a failure ──▶ 0.3 until the next success, from which it counts anew
//
// So a pod that is well does not flap on a failure or two, and one that does flap
// does not get above 0.3. The zero Check has not been tried, and is not known before
// a success or three failures.
type Check struct {
	state  state
	misses int           // in a row
	since  time.Duration // recovering without a failure
	reason string        // of the last failure
}

type state uint8

const (
	untried state = iota // or not often enough
	well
	failed
	recovering
)

// Succeed notes a success.
func (c *Check) Succeed(at time.Duration) {
	switch {
	case c.state == failed, c.state == recovering && c.misses > 0:
		c.state, c.since = recovering, at
	case c.state == untried, c.recovered(at):
		c.state = well
	}
	c.misses = 0
}

// Fail notes a failure that may pass by itself.
func (c *Check) Fail(at time.Duration, reason string) {
	c.miss(at, reason)
	if c.misses >= missesToFail {
		c.state = failed
	}
}

// Break notes a failure that leaves no doubt: nobody listens there.
func (c *Check) Break(at time.Duration, reason string) {
	c.miss(at, reason)
	c.state = failed
}

// Hinder notes a failure that can be somebody else's fault: it costs as much as
// others, and three of them are no failed check.
func (c *Check) Hinder(at time.Duration, reason string) {
	c.miss(at, reason)
	if c.state != failed {
		c.misses = min(c.misses, missesToFail-1)
	}
}

func (c *Check) miss(at time.Duration, reason string) {
	if c.recovered(at) {
		c.state = well
	}
	c.misses++
	c.reason = reason
}

func (c *Check) recovered(at time.Duration) bool {
	return c.state == recovering && c.misses == 0 && at-c.since >= Recovery
}

// Standing is where a check stands at some moment. The zero Standing is that of
// one that is not known.
type Standing struct {
	Known  bool
	Failed bool
	// Recovered is what a recovering check lets the pod have, in hundredths; 0 for
	// one that is not recovering.
	Recovered int
	Misses    int    // in a row
	Reason    string // of the last miss, or of what it is recovering from
}

// Standing tells where the check stands.
func (c *Check) Standing(now time.Duration) Standing {
	if c.state == untried {
		return Standing{}
	}
	s := Standing{Known: true, Failed: c.state == failed, Misses: c.misses}
	if c.state == recovering && !c.recovered(now) {
		s.Recovered = recoveryStart
		if c.misses == 0 {
			s.Recovered += point * int(max(0, now-c.since)/recoveryStep)
		}
	}
	if s.Failed || s.Recovered > 0 || s.Misses > 0 {
		s.Reason = c.reason
	}
	return s
}
