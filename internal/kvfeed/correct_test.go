package kvfeed_test

import (
	"testing"

	"github.com/eppctl/eppctl/internal/kvfeed"
)

// What an engine found in its cache takes back what was claimed since a gap, and
// nothing else.
func TestEngineCorrectsWhatAGapLeft(t *testing.T) {
	a := newPublisher(t, "")
	r := newRig(t, kvfeed.Config{}, member("a", a))
	a.heard()
	prompt, other := tokens(1, 64), tokens(2, 32)
	a.send(stored(1, prompt, 16, 0, 4))
	r.untilMatched("a", root, prompt, 4)
	whole := r.pick("a", root, prompt)
	whole.Correct(64, 0)
	if n := r.matched("a", root, prompt); n != 4 {
		t.Errorf("%d blocks match: an answer is believed more than a stream without a gap", n)
	}
	whole.Release()

	a.lose(removed(1, 2, 4))
	a.send(stored(2, other, 16, 0, 2))
	r.untilMatched("a", root, other, 2)
	until(t, "the gap is noted", func() bool { return r.note("a") == "degraded: gap" })
	for _, tt := range []struct {
		name         string
		prompt, want int
		cached       int
	}{
		{"not told", 64, 4, -1},
		{"all but the last block, which is never found", 64, 4, 48},
		{"half", 64, 2, 32},
	} {
		booked := r.pick("a", root, prompt)
		booked.Correct(tt.prompt, tt.cached)
		if n := r.matched("a", root, prompt); n != tt.want {
			t.Errorf("%s: %d blocks match, want %d", tt.name, n, tt.want)
		}
		booked.Release()
	}
	if n := r.matched("a", root, other); n != 2 {
		t.Errorf("%d blocks of another prompt match, want 2", n)
	}
	if s := r.stream("a", 0); s.Corrected != 2 {
		t.Errorf("%d blocks were corrected, want 2", s.Corrected)
	}
}
