package tokens

import "time"

// breaker keeps requests from waiting for somebody who does not answer. After
// some failures in a row it opens; after a pause, which doubles each time, one
// probe may go out, and its success closes it again.
type breaker struct {
	failures int
	until    time.Time // open till then, and till a probe has succeeded; zero = closed
	pause    time.Duration
	probing  bool
}

const (
	leastPause = time.Second
	mostPause  = time.Minute
)

func (b *breaker) closed() bool { return b.until.IsZero() }

// due: it is open, and a probe may go out.
func (b *breaker) due(now time.Time) bool {
	return !b.closed() && !b.probing && !now.Before(b.until)
}

// admits a call, or at least a probe.
func (b *breaker) admits(now time.Time) bool { return b.closed() || b.due(now) }

// failed notes a failure; most of them in a row open it. It reports whether it has
// just opened.
func (b *breaker) failed(now time.Time, most int) bool {
	if !b.closed() && !b.probing {
		return false // of a call from before it opened
	}
	b.failures++
	if b.closed() && b.failures < most {
		return false
	}
	return b.open(now, min(max(2*b.pause, leastPause), mostPause))
}

func (b *breaker) open(now time.Time, pause time.Duration) bool {
	opened := b.closed()
	b.pause, b.until, b.probing = pause, now.Add(pause), false
	return opened
}

// succeeded closes it, and reports whether it was open.
func (b *breaker) succeeded() bool {
	was := !b.closed()
	*b = breaker{}
	return was
}
