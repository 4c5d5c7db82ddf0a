package picker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/score"
)

// What explains that an engine found other than predicted may come after its
// answer: the events of that very step are on another connection. So evidence is
// looked for again, a few times, in wall time as it is about this process and the
// network.
const (
	settleTime  = time.Second
	settlePause = 100 * time.Millisecond
	maxSettling = 1024 // picks at once; more are settled when they end
)

// settler waits for evidence: for that of all picks in one goroutine, which is
// there while there are any. Where the picker counts tokens otherwise than the
// engines, nearly all requests are waited for.
type settler struct {
	life  context.Context // of the goroutine
	end   context.CancelFunc
	count atomic.Int64
	wg    sync.WaitGroup

	mu    sync.Mutex
	fresh []unsettled // not looked at yet
	runs  bool
}

// unsettled is a pick that has ended.
type unsettled struct {
	pick    *Pick
	outcome *record.Outcome
	until   time.Time
}

func (s *settler) open() { s.life, s.end = context.WithCancel(context.Background()) }

// close ends the waiting and waits for that.
func (s *settler) close() {
	s.end()
	s.wg.Wait()
}

// add waits for evidence about a pick.
func (s *settler) add(k *Pick, o *record.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh = append(s.fresh, unsettled{k, o, clock.Wall{}.Now().Add(k.picker.cfg.Settle)})
	if !s.runs {
		s.runs = true
		s.wg.Go(s.run)
	}
}

func (s *settler) run() {
	for waiting := s.take(nil); len(waiting) > 0; waiting = s.take(waiting) {
		over := clock.Wall{}.Sleep(s.life, settlePause) != nil
		now := clock.Wall{}.Now()
		waiting = slices.DeleteFunc(waiting, func(u unsettled) bool {
			if !over && !u.explained() && now.Before(u.until) {
				return false
			}
			u.settle()
			return true
		})
	}
}

// take adds what has come to what is waited for. With nothing the goroutine ends.
func (s *settler) take(waiting []unsettled) []unsettled {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting = append(waiting, s.fresh...)
	clear(s.fresh)
	s.fresh, s.runs = s.fresh[:0], len(waiting) > 0
	return waiting
}

// explained looks for evidence.
func (u *unsettled) explained() bool {
	u.outcome.Prediction = u.pick.compare(u.outcome.CachedTokens)
	return u.outcome.Prediction != explain.PredictionUnexplained
}

// settle completes the record with what is known now.
func (u *unsettled) settle() {
	p := u.pick.picker
	u.outcome.Unsettled = false
	p.cfg.Recorder.Complete(u.pick.handle, u.outcome)
	u.pick.reservation.Forget()
	p.settle.count.Add(-1)
}

// predicted is how many tokens the picked pod should find in its cache, in whatever
// tier; −1 when nothing can be said.
func (s *scratch) predicted(r *request.Request, picked *pool.Reservation) int {
	if s.picked < 0 || r.NoPrefix != "" || len(r.PromptTokens) != 1 || len(r.Tokens) == 0 {
		return -1
	}
	if s.in.Pods[s.picked].Cache.State != score.Known {
		return -1
	}
	return picked.Cached(len(r.Tokens))
}

// elsewhere reports whether another pod than the prediction was made for took the
// request.
func (k *Pick) elsewhere() bool {
	s := k.served.Load()
	return k.retried || s != nil && s != asPicked
}

// foretold compares the engine's count with the prediction. unsettled means that
// nothing explains the difference yet: [settler.add] has to follow.
func (k *Pick) foretold(cached int) (class string, unsettled bool) {
	class = k.compare(cached)
	if class != explain.PredictionUnexplained || k.picker.cfg.Hasty {
		return class, false
	}
	if k.picker.settle.count.Add(1) > maxSettling || !k.reservation.Watch() {
		k.picker.settle.count.Add(-1)
		return class, false
	}
	return class, true
}

// compare is the class of the prediction by what is known now; "" when there was
// none.
func (k *Pick) compare(cached int) string {
	switch {
	case k.predicted < 0:
		return ""
	case k.elsewhere():
		return explain.PredictionOtherPod
	case cached < 0:
		return explain.PredictionUnknown
	case cached == k.predicted:
		return explain.PredictionMet
	}
	ev := k.reservation.Evidence(cached, k.looked)
	switch more := cached > k.predicted; {
	case ev.Assumed:
		return explain.PredictionAssumed
	case more && ev.Stored:
		return explain.PredictionInFlight
	case !more && ev.Evicted:
		return evicted(ev.Unseen)
	case ev.Degraded == kvindex.Gapped:
		return explain.PredictionAfterGap
	case more && ev.Degraded == kvindex.JoinedLate:
		return explain.PredictionJoinedLate
	}
	return explain.PredictionUnexplained
}

func evicted(unseen bool) string {
	if unseen {
		return explain.PredictionUnseen
	}
	return explain.PredictionRaced
}
