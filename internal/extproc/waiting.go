package extproc

import (
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/picker"
)

// waiting holds the picks whose stream has ended without their end: the access
// log may still tell it. After the EndTimeout nobody will.
type waiting struct {
	server *Server
	mu     sync.Mutex
	picks  map[string]*awaited // by decision ID
	early  map[string]picker.End
	order  []string // of early, oldest first
	closed bool
	ending sync.WaitGroup // timers that end a pick just now
}

type awaited struct {
	pick  *picker.Pick
	end   picker.End
	timer *time.Timer
}

// maxEarly bounds the log entries that are kept because they may have come
// before the end of their stream.
const maxEarly = 1024

func (w *waiting) count() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(len(w.picks))
}

// firstLog is how long the end of an answer that has begun is waited for while no
// access log is there: Envoy opens the log with its first entry.
const firstLog = 5 * time.Second

// add takes a pick whose end is unknown. Without an access log the headers of the
// response, when they came, are probably the last that is heard of it: the pod is
// reserved no longer.
func (w *waiting) add(pick *picker.Pick, e picker.End) {
	timeout := w.server.cfg.EndTimeout
	if e.Unknown == unseenBody && w.server.counts.logs.Load() == 0 {
		pick.LetGo()
		timeout = min(timeout, firstLog)
	}
	id := pick.DecisionID()
	w.mu.Lock()
	if told, ok := w.early[id]; ok {
		delete(w.early, id)
		w.mu.Unlock()
		w.tell(pick, &e, &told)
		return
	}
	if w.closed || len(w.picks) >= w.server.cfg.MaxStreams {
		w.mu.Unlock()
		w.giveUp(pick, e)
		return
	}
	if w.picks == nil {
		w.picks = map[string]*awaited{}
	}
	w.picks[id] = &awaited{pick: pick, end: e, timer: time.AfterFunc(timeout, func() { w.expire(id) })}
	w.mu.Unlock()
}

// logged takes what the access log says of a request.
func (w *waiting) logged(id string, told picker.End) {
	w.mu.Lock()
	a := w.picks[id]
	delete(w.picks, id)
	if a == nil {
		w.keep(id, told)
	}
	w.mu.Unlock()
	if a != nil {
		a.timer.Stop()
		w.tell(a.pick, &a.end, &told)
	}
}

// keep remembers an entry whose stream has not ended yet, or did long ago.
func (w *waiting) keep(id string, told picker.End) {
	if w.early == nil {
		w.early = map[string]picker.End{}
	}
	if len(w.order) >= maxEarly {
		delete(w.early, w.order[0])
		w.order = w.order[1:]
	}
	w.early[id] = told
	w.order = append(w.order, id)
}

// tell ends a pick by the log's word, and what was seen beside it.
func (w *waiting) tell(pick *picker.Pick, seen, told *picker.End) {
	w.server.counts.accessLogs.Add(1)
	if told.ServedEndpoint != "" {
		pick.ServedBy(told.ServedEndpoint)
		pick.Answered(told.Status)
	}
	told.PromptTokens, told.CachedTokens, told.OutputTokens = seen.PromptTokens, seen.CachedTokens, seen.OutputTokens
	pick.Done(*told)
}

func (w *waiting) giveUp(pick *picker.Pick, e picker.End) {
	w.server.counts.unknown.Add(1)
	pick.Done(e)
}

func (w *waiting) expire(id string) {
	var err error // is told by contain
	defer w.server.contain(&err)
	w.mu.Lock()
	a := w.picks[id]
	delete(w.picks, id)
	if a != nil {
		w.ending.Add(1)
		defer w.ending.Done()
	}
	w.mu.Unlock()
	if a != nil {
		w.giveUp(a.pick, a.end)
	}
}

// close gives up on all.
func (w *waiting) close() {
	w.mu.Lock()
	picks := w.picks
	w.picks, w.closed = nil, true
	w.mu.Unlock()
	for _, a := range picks {
		a.timer.Stop()
		w.giveUp(a.pick, a.end)
	}
	w.ending.Wait()
}
