package health

import "time"

// refused is the standing of a check that has just been refused.
func refused() Standing {
	var c Check
	c.Break(0, "connection refused on port 8000")
	return c.Standing(0)
}

// missed is the standing of a check that had been well and then failed n times.
func missed(n int) Standing {
	var c Check
	c.Succeed(0)
	for range n {
		c.Fail(time.Second, "timeout after 1s")
	}
	return c.Standing(time.Second)
}

// recoveringFor is the standing so long after the first success.
func recoveringFor(d time.Duration) Standing {
	var c Check
	c.Break(0, "HTTP 503 on port 8000")
	c.Succeed(time.Second)
	return c.Standing(time.Second + d)
}

// perfect is a pod of which everything is known, and well.
func perfect() Signals {
	return Signals{
		Probe: missed(0), Generation: missed(0), Model: Yes, DoubleBit: Of(0), SingleBit: Of(0), XID: Of(0),
		Hottest: Of(60), Throttle: Of(1 | 1<<2), Memory: Of(.92), Warm: Yes, Reported: Of(1),
	}
}
