package kvfeed_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/kvfeed"
)

// An engine that gives cause for a line with each of its batches does not fill the
// log, and hides neither what else there is to say of it nor other engines.
func TestLogIsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"), connecting("b", "10.0.0.2:8000"))
		prompt := tokens(1, 16)
		gaps := func(p *publisher, pod string, from, to int) {
			for range to - from {
				p.seq++
				p.send(stored(1, prompt, 16, 0, 1))
				synctest.Wait()
			}
			until(t, "the gaps are noted", func() bool { return r.stream(pod, 0).Gaps == uint64(to) })
		}
		a := g.from(t, "10.0.0.1:4001")
		a.send(stored(1, prompt, 16, 0, 1))
		gaps(a, "a", 0, 200)
		if n := r.log.count("KV events missed"); n != kvfeed.MaxRanks {
			t.Fatalf("%d of 200 lines, want %d", n, kvfeed.MaxRanks)
		}
		b := g.from(t, "10.0.0.2:4001")
		b.send(stored(1, prompt, 16, 0, 1))
		gaps(b, "b", 0, 1)
		if n := r.log.count("KV events missed"); n != kvfeed.MaxRanks+1 {
			t.Errorf("%d lines, want one more, of the other pod", n)
		}
		time.Sleep(20 * time.Second) // a fake clock's
		gaps(a, "a", 200, 210)
		if n := r.log.count("KV events missed"); n != kvfeed.MaxRanks+3 {
			t.Errorf("%d lines, want two more after 20 s", n)
		}
		if n := r.log.count("leftOut=136"); n != 1 {
			t.Errorf("%d lines tell of the 136 that were left out, want 1", n)
		}
		if n := r.log.count("listening to KV events"); n != 2 {
			t.Errorf("%d lines of connections, want 2", n)
		}
	})
}
