package gateway

import "time"

// stopwatch measures a stage in wall time.
func stopwatch() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// in is the deadline of an HTTP timeout that starts now.
func in(d time.Duration) time.Time { return time.Now().Add(d) }
