package kvfeed_test

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/eppctl/eppctl/internal/kvfeed"
)

// Who keeps silent, sends garbage or comes in crowds is in nobody's way.
func TestInboundCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"))
		a := g.from(t, "10.0.0.1:4001")
		prompt := tokens(1, 64)
		a.send(stored(1, prompt, 16, 0, 1))
		r.untilMatched("a", root, prompt, 1)

		for i := range 1000 {
			g.dial(t, fmt.Sprint("10.0.0.9:", 10_000+i))
		}
		garbage := ended(g.dial(t, "10.0.0.9:9999"))
		broken := g.dial(t, "10.0.0.9:9998")
		brokenEnd := ended(broken)
		_, _ = io.WriteString(broken, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		<-brokenEnd
		a.send(stored(1, prompt, 16, 1, 2))
		r.untilMatched("a", root, prompt, 2)
		b := g.from(t, "10.0.0.1:4002")
		b.rank = 1
		b.send(stored(1, prompt, 16, 0, 3))
		r.untilMatched("a", root, prompt, 3)

		<-garbage // the handshake takes 5 s at most
		until(t, "the silent are gone", func() bool { return r.feeds.Inbound().Failed == 1002 })
		a.send(stored(1, prompt, 16, 2, 4))
		r.untilMatched("a", root, prompt, 4)
		if in := r.feeds.Inbound(); in.Connections != 2 || r.stream("a", 0).Connections != 1 || r.stream("a", 1).Connections != 1 {
			t.Errorf("the listener's figures are %+v", in)
		}
	})
}

// Connections from where no pod is leave room for those of pods, and one pod can't
// have more than its share.
func TestInboundLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, g := newListening(t, kvfeed.Config{}, connecting("a", "10.0.0.1:8000"), connecting("b", "10.0.0.2:8000"))
		for i := range 256 {
			g.from(t, fmt.Sprint("10.0.0.9:", 10_000+i))
		}
		refused := g.refused(t, "10.0.0.9:20000")
		until(t, "the next is refused", func() bool { return refused.pub.Stats().Subscribers == 0 && r.feeds.Inbound().Refused == 1 })
		for i := range kvfeed.MaxRanks {
			p := g.from(t, fmt.Sprint("10.0.0.1:", 10_000+i))
			p.rank = i
			p.send(stored(1, tokens(1, 16), 16, 0, 1))
		}
		until(t, "all have a rank", func() bool { return len(r.view("a").Streams) == kvfeed.MaxRanks })
		over := g.from(t, "10.0.0.1:20000")
		over.send(stored(1, tokens(1, 16), 16, 0, 1))
		until(t, "one more is refused", func() bool { return over.pub.Stats().Subscribers == 0 && r.feeds.Inbound().Refused == 2 })
		if n := r.log.count("connection for KV events refused"); n != 1 {
			t.Errorf("%d warnings, want 1", n)
		}
		b := g.from(t, "10.0.0.2:4001")
		b.send(stored(1, tokens(1, 16), 16, 0, 1))
		r.untilMatched("b", root, tokens(1, 16), 1)
	})
}
