package extproc

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/picker"
)

// A body that does not come to its end is answered, and lets go of its memory.
func TestBodyTimeout(t *testing.T) {
	for name, ms := range map[string][]*message{
		"nothing at all": {},
		"only headers":   {post("x-request-id", "my-id")},
		"half a body":    {post("x-request-id", "my-id"), requestBody(chatBody[:40], false)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(set *setup) { set.server.BodyTimeout = 10 * time.Second }, func(t *testing.T, s *site) {
				f := s.open(t, fullDuplex, fullDuplex)
				f.send(ms...)
				time.Sleep(9 * time.Second)
				f.send()
				if f.immediate != nil {
					t.Fatal("refused before the time")
				}
				time.Sleep(2 * time.Second)
				f.take()
				if f.immediate.GetStatus().GetCode() != 408 {
					t.Fatalf("%v, want a 408", f.sequence)
				}
				if len(ms) > 0 {
					if r := f.refused(); r.code != "body_timeout" || r.param != "body" {
						t.Errorf("answered %+v", r)
					}
				}
				if err := f.ends(); err == nil {
					t.Error("the stream ended well")
				}
				s.settled(t) // though the gateway has not ended its side
			})
		})
	}
}

// The time is over at the very moment at which the rest comes: one of the two is
// the answer, whole.
func TestBodyTimeoutAtTheEnd(t *testing.T) {
	bubble(t, func(set *setup) { set.server.BodyTimeout = time.Second }, func(t *testing.T, s *site) {
		answers := map[string]int{}
		for i := range 300 {
			m := []mode{fullDuplex, buffered, none}[i%3]
			f := s.open(t, m, fullDuplex)
			synctest.Wait()
			if m == fullDuplex {
				f.push(post(), requestBody(chatBody[:9], false))
				time.Sleep(time.Second)
				f.push(requestBody(chatBody[9:], true))
			} else {
				time.Sleep(time.Second)
				f.push(post())
			}
			f.send()
			answers[strings.Join(f.sequence, " ")]++
			f.leaveOrDone()
			synctest.Wait()
		}
		if answers["immediate 408"] == 0 {
			t.Errorf("never too late: %v", answers)
		}
		s.forget()
		s.settled(t)
	})
}

// What the handler was about to say when the time was over is not said.
func TestNothingAfterARefusal(t *testing.T) {
	var c checker
	stream := newFakeStream(nil, c.got)
	x := newExchange(newSite(t, nil).Server, stream)
	var err error
	defer x.end(&err)
	x.expire()
	if err := x.write(emptyHeaders); err != nil || len(c.sequence) != 1 || c.immediate == nil {
		t.Errorf("%v, %v, want the 408 and no more", c.sequence, err)
	}
}

// Nothing is said to a stream that has ended.
func TestNothingAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil)
		c := newChecker(fullDuplex, fullDuplex)
		if err := s.play(&c, []*message{post()}, io.EOF); err == nil {
			t.Error("ended well")
		}
		time.Sleep(s.cfg.BodyTimeout + s.cfg.IdleTimeout + time.Second)
		synctest.Wait()
		if len(c.sequence) > 0 {
			t.Errorf("%v after the end", c.sequence)
		}
	})
}

// A body may take its time as long as it comes within the limit, and an answer
// as long as something comes now and then.
func TestSlowExchange(t *testing.T) {
	bubble(t, func(set *setup) {
		set.server.BodyTimeout, set.server.IdleTimeout = 10*time.Second, 20*time.Second
	}, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		f.send(post())
		time.Sleep(8 * time.Second)
		f.send(requestBody(chatBody, true))
		time.Sleep(19 * time.Second)
		f.send(sseHead())
		for range 100 {
			time.Sleep(19 * time.Second)
			f.send(responseBody("data: {}\n\n", false))
		}
		f.send(responseBody("", true)).done()
		r := s.record(t)
		if r.Outcome.Error != "" || *r.Outcome.TTFTSeconds != 38 || *r.Outcome.DurationSeconds != 1919 || *r.Timings.Body != 8 {
			t.Errorf("recorded as %+v, waited %v", r.Outcome, *r.Timings.Body)
		}
		s.settled(t)
	})
}

// A stream on which nothing comes any more is ended.
func TestIdleStream(t *testing.T) {
	for _, tt := range []struct {
		name string
		ms   []*message
		want string
	}{
		{"before the answer", []*message{post(), requestBody(chatBody, true)}, picker.ErrorAborted},
		{"in the answer", []*message{get(), sseHead(), responseBody("data: {}\n\n", false)}, picker.ErrorAborted},
		{"after the answer", []*message{get(), sseHead(), responseBody("data: {}\n\n", true)}, ""},
		{"after a refusal", []*message{post(), requestBody("{", true)}, "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *site) {
				f := s.open(t, fullDuplex, fullDuplex)
				f.send(tt.ms...)
				time.Sleep(s.cfg.IdleTimeout + time.Second)
				if err := f.ends(); err == nil {
					t.Error("the stream ended well")
				}
				if n := s.Stats().Idle; n != 1 {
					t.Errorf("%d idle streams are counted", n)
				}
				if tt.want != "none" {
					if o := s.record(t).Outcome; o.State != explain.OutcomeDone || o.Error != tt.want {
						t.Errorf("recorded as %+v, want %q", o, tt.want)
					}
				}
				s.settled(t)
			})
		})
	}
}

// case X3: many streams hold half a body; memory stays bounded, the others are
// refused, and all is given back when they go.
func TestManyHalfBodies(t *testing.T) {
	const budget = 1 << 20
	half := strings.Repeat("x", 10_000)
	bubble(t, func(set *setup) { set.server.MaxBodies = budget }, func(t *testing.T, s *site) {
		var open []*front
		refused := 0
		for range 200 {
			f := s.open(t, fullDuplex, fullDuplex)
			if f.send(post(), requestBody(half, false)); f.immediate != nil {
				if f.immediate.GetStatus().GetCode() != 503 {
					t.Errorf("refused with %v", f.immediate.GetStatus())
				}
				refused++
			}
			open = append(open, f)
			if n := s.Stats().BodyBytes; n > budget {
				t.Fatalf("%d bytes of bodies are held, want at most %d", n, budget)
			}
		}
		if refused < 90 || refused > 100 {
			t.Errorf("%d of 200 refused, want about 96", refused)
		}
		for i, f := range open {
			if i%2 == 0 {
				f.done()
			} else {
				f.leave()
			}
		}
		synctest.Wait()
		s.settled(t)
		f := s.open(t, fullDuplex, fullDuplex)
		f.send(post(), requestBody(chatBody, true)).send(jsonHead(), responseBody("{}", true)).done()
		s.settled(t)
	})
}

// A body in pieces of one byte takes no more memory than is counted for it.
func TestTinyPiecesAreCounted(t *testing.T) {
	bubble(t, func(set *setup) { set.server.MaxBodies = 1000 * pieceCost }, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		f.send(post()).send(pieces(requestBody, false, cut(strings.Repeat("x", 990), 1)...)...)
		if f.immediate == nil {
			t.Errorf("%d bytes are counted for 990 pieces", s.Stats().BodyBytes)
		}
		f.done()
		synctest.Wait()
		s.settled(t)
	})
}

// Streams over the limit are refused; when one goes, the next is taken.
func TestMaxStreams(t *testing.T) {
	bubble(t, func(set *setup) { set.server.MaxStreams = 2 }, func(t *testing.T, s *site) {
		a := s.open(t, fullDuplex, fullDuplex).send(post())
		b := s.open(t, fullDuplex, fullDuplex).send(post())
		c := s.open(t, fullDuplex, fullDuplex).send(post())
		if a.immediate != nil || b.immediate != nil || c.immediate.GetStatus().GetCode() != 503 {
			t.Errorf("answered %v, %v, %v, want a 503 for the third only", a.sequence, b.sequence, c.sequence)
		}
		a.done()
		c.done()
		synctest.Wait()
		d := s.open(t, fullDuplex, fullDuplex)
		if d.send(post(), requestBody(chatBody, true)); d.immediate != nil {
			t.Errorf("refused with %v", d.immediate)
		}
		d.send(jsonHead(), responseBody("{}", true)).done()
		b.done()
		synctest.Wait()
		s.settled(t)
	})
}
