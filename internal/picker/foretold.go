package picker

import (
	"context"
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
	settleTries = 10
	settlePause = 100 * time.Millisecond
	maxSettling = 1024 // picks at once; more are settled when they end
)

// settler owns the goroutines that wait for evidence.
type settler struct {
	life  context.Context // of all of them
	end   context.CancelFunc
	count atomic.Int64
	wg    sync.WaitGroup
}

func (s *settler) open() { s.life, s.end = context.WithCancel(context.Background()) }

// close ends the waiting and waits for that.
func (s *settler) close() {
	s.end()
	s.wg.Wait()
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
// nothing explains the difference yet: [Pick.settleLater] has to follow.
func (k *Pick) foretold(end *End) (class string, unsettled bool) {
	class = k.compare(end)
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
func (k *Pick) compare(end *End) string {
	switch {
	case k.predicted < 0:
		return ""
	case k.elsewhere():
		return explain.PredictionOtherPod
	case end.CachedTokens < 0:
		return explain.PredictionUnknown
	case end.CachedTokens == k.predicted:
		return explain.PredictionMet
	}
	ev := k.reservation.Evidence(end.CachedTokens, k.looked)
	switch more := end.CachedTokens > k.predicted; {
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

// settleLater waits for evidence and completes the record with it.
func (k *Pick) settleLater(o record.Outcome, end End) {
	p := k.picker
	p.settle.wg.Go(func() {
		defer p.settle.count.Add(-1)
		defer k.reservation.Forget()
		for range settleTries {
			if (clock.Wall{}).Sleep(p.settle.life, settlePause) != nil {
				break
			}
			if o.Prediction = k.compare(&end); o.Prediction != explain.PredictionUnexplained {
				break
			}
		}
		o.Unsettled = false
		p.cfg.Recorder.Complete(k.handle, &o)
	})
}
