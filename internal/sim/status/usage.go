package status

import "time"

// Usage is the share of the time between two reports in which steps ran.
type Usage struct{ at, busy time.Duration }

// Read is the share since the last call; nil when no time has passed. Steps have
// run for busy since the start.
func (u *Usage) Read(now, busy time.Duration) *float64 {
	passed, worked := now-u.at, busy-u.busy
	u.at, u.busy = now, busy
	if passed <= 0 {
		return nil
	}
	return new(min(1, float64(worked)/float64(passed)))
}

// A Meter measures the share of busy time, in windows of a second at least, as
// DCGM samples.
type Meter struct {
	at, busy time.Duration
	share    float64
	measured bool
}

// Read is the share at now, when steps have run for busy since the start.
func (m *Meter) Read(now, busy time.Duration) float64 {
	if passed := now - m.at; passed > 0 && (passed >= time.Second || !m.measured) {
		m.share = min(1, float64(busy-m.busy)/float64(passed))
		m.at, m.busy, m.measured = now, busy, true
	}
	return m.share
}
