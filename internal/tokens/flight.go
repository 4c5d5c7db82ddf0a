package tokens

import (
	"context"
	"slices"
	"sync"
	"time"
)

// flight is the asking for one prompt, for all that wait for it.
type flight struct {
	plan    *plan
	started time.Time
	cancel  context.CancelFunc
	done    chan struct{}
	got     answer // once done is closed
	ok      bool

	mu      sync.Mutex // taken before the asker's
	waiting int
	late    bool    // somebody has waited in vain, which was counted
	at      *server // asked now
}

type answer struct {
	ids  []uint32
	from string
}

// fly waits for the answer to a plan, together with whoever wants the same.
func (t *Tokeniser) fly(ctx context.Context, p *plan) (answer, bool) {
	if t.asker.long(&p.ask, wallTime()) {
		return answer{}, false
	}
	f := t.board(p)
	if f == nil {
		return answer{}, false
	}
	timer := time.NewTimer(t.cfg.Timeout)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.got, f.ok
	case <-ctx.Done():
		t.leave(f, false)
	case <-timer.C:
		t.counts.waitedInVain.Add(1)
		t.leave(f, true)
	}
	return answer{}, false
}

// board finds the flight for a plan or starts one; nil when nobody should be
// waited for.
func (t *Tokeniser) board(p *plan) *flight {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := wallTime()
	if f := t.flights[p.key]; f != nil && now.Sub(f.started) < t.cfg.Timeout {
		if f.join() {
			t.counts.coalesced.Add(1)
			return f
		}
	}
	if t.life.Err() != nil {
		return nil
	}
	first, probe := t.asker.choose(p, nil, now)
	if probe != nil {
		t.work.Go(func() { t.probe(p, probe) })
	}
	if first == nil {
		return nil
	}
	f := &flight{plan: p, started: now, done: make(chan struct{}), waiting: 1, at: first}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(t.life)
	t.flights[p.key] = f
	t.work.Go(func() { t.run(ctx, f) })
	return f
}

// join adds somebody who waits; false when the last one has just left.
func (f *flight) join() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting == 0 {
		return false
	}
	f.waiting++
	return true
}

// mute: nobody is asked for a model now, and nothing is kept from earlier. Reading and hashing
// a long prompt would be for nothing.
func (t *Tokeniser) mute(base string) bool {
	_, kept := t.cache.size()
	return kept == 0 && t.asker.silent(base, wallTime())
}

// leave takes somebody away who waits no longer. The first who has waited for the
// whole timeout counts as a failure of whoever is asked; the last cancels the call.
func (t *Tokeniser) leave(f *flight, late bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting--
	if late && !f.late && f.at != nil {
		f.late = true
		t.asker.judge(f.at, f.plan, outcomeTimeout)
	}
	if f.waiting == 0 {
		f.cancel()
	}
}

// attempts is how many servers are asked for one prompt, if the first ones fail
// quickly.
const attempts = 2

// run asks one server after the other, hands the answer to those who wait, and
// then learns what it can.
func (t *Tokeniser) run(ctx context.Context, f *flight) {
	defer f.cancel()
	asked := []*server{f.at}
	for {
		s := asked[len(asked)-1]
		ids, out := t.ask(ctx, f, s)
		if out == outcomeOK {
			f.got, f.ok = t.whole(f.plan, s, ids), true
			t.keep(f.plan, f.got)
			break
		}
		if !out.another() || len(asked) == attempts || ctx.Err() != nil {
			break
		}
		next, _ := t.asker.choose(f.plan, asked, wallTime())
		if next == nil {
			break
		}
		asked = append(asked, next)
		f.mu.Lock()
		f.at = next
		f.mu.Unlock()
	}
	t.mu.Lock()
	if t.flights[f.plan.key] == f {
		delete(t.flights, f.plan.key)
	}
	t.mu.Unlock()
	close(f.done)
	if f.ok && f.plan.lesson != nil {
		t.lone(f.plan, asked[len(asked)-1], f.got.ids)
	}
}

// ask makes one call and notes how it went, unless somebody's waiting in vain has
// been noted, or nobody waits any more.
func (t *Tokeniser) ask(ctx context.Context, f *flight, s *server) ([]uint32, outcome) {
	ids, out := t.asker.ask(ctx, s, &f.plan.ask)
	t.asker.release(s)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.late && f.waiting > 0 {
		t.asker.judge(s, f.plan, out)
	}
	f.at = nil
	return ids, out
}

// whole puts an answer behind what was known.
func (t *Tokeniser) whole(p *plan, s *server, ids []uint32) answer {
	if p.head != nil {
		return answer{ids: slices.Concat(p.head, ids), from: Joined}
	}
	if s.render {
		return answer{ids: ids, from: FromRender}
	}
	return answer{ids: ids, from: p.origin(s)}
}

// probe asks a server that has failed, with a real prompt and nobody waiting.
func (t *Tokeniser) probe(p *plan, s *server) {
	ctx, cancel := context.WithTimeout(t.life, t.cfg.Timeout)
	defer cancel()
	ids, out := t.asker.ask(ctx, s, &p.ask)
	t.asker.release(s)
	if t.life.Err() != nil {
		t.asker.unprobe(s, p.base)
		return
	}
	t.asker.judge(s, p, out)
	if out == outcomeOK {
		t.keep(p, t.whole(p, s, ids))
	}
}

// lone asks for the rest of a text by itself, for a lesson.
func (t *Tokeniser) lone(p *plan, s *server, whole []uint32) {
	if !t.asker.reserve(s) {
		return
	}
	ctx, cancel := context.WithTimeout(t.life, t.cfg.Timeout)
	defer cancel()
	rest, out := t.asker.ask(ctx, s, &p.lesson.rest)
	t.asker.release(s)
	if out == outcomeOK {
		t.learn(p, whole, rest)
	}
}
