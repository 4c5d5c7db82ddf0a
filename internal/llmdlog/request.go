package llmdlog

import (
	"time"
)

// request is a request whose end was not read yet.
type request struct {
	proc          *process
	id            string
	began         bool // its arrival was read
	arrived, last time.Time
	model, target string
	runs          []*run
	current       *run // the profile run that its lines belong to

	done     bool   // 'Request handled': the pick was made
	endpoint string // as that line has it: primary profile only
	passed   time.Time

	mixed  bool // two requests of this ID ran at once: their lines can't be told apart
	shared bool // the end of another of this ID may pass for this one's

	rejection string // in words of our own
	first     time.Time
	end       time.Time
	streamed  bool
	upstream  string // an error of the answer, in a word
}

func (p *Parser) find(proc *process, id string) *request {
	if at := p.open[proc.source+"\x00"+id]; at != nil {
		return at.Value.(*request)
	}
	return nil
}

// begin opens a request, and gives up the oldest where there are too many.
func (p *Parser) begin(proc *process, e *entry, id string) *request {
	for p.queue.Len() > 0 {
		oldest := p.queue.Front().Value.(*request)
		if p.queue.Len() < maxOpen && e.at.Sub(oldest.last) < patience {
			break
		}
		p.close(oldest)
	}
	r := &request{proc: proc, id: id, last: e.at}
	p.open[proc.source+"\x00"+id] = p.queue.PushBack(r)
	return r
}

// bound counts a request's candidates, and gives up the oldest requests where all
// have too many.
func (p *Parser) bound(r *request) {
	p.openPods += r.newPods()
	for p.openPods > maxOpenPods && p.queue.Len() > 1 {
		p.close(p.queue.Front().Value.(*request))
	}
}

// newPods is the number of candidates that were not counted before.
func (r *request) newPods() int {
	n := 0
	for _, run := range r.runs {
		n += len(run.pods) - run.counted
		run.counted = len(run.pods)
	}
	return n
}

// close ends a request: its records are made, or it is noted why there are none.
func (p *Parser) close(r *request) {
	key := r.proc.source + "\x00" + r.id
	at := p.open[key]
	if at == nil || at.Value.(*request) != r {
		return
	}
	p.queue.Remove(at)
	delete(p.open, key)
	r.newPods()
	for _, run := range r.runs {
		p.openPods -= run.counted
	}
	if r.mixed || !r.hasPick() {
		p.fates.add(r.id, fate{reason: r.why()})
		return
	}
	p.fates.add(r.id, fate{picked: true})
	p.records(r)
}

func (r *request) hasPick() bool {
	for _, run := range r.runs {
		if run.whole() {
			return true
		}
	}
	return false
}

// received is the arrival of a request. Another of the same ID may be open: then
// their answers can't be told apart, and while it is being decided their runs
// neither.
func (p *Parser) received(proc *process, e *entry) {
	if e.ID == "" {
		return
	}
	shared := false
	if old := p.find(proc, e.ID); old != nil {
		if old.current != nil || (len(old.runs) > 0 && !old.done && old.rejection == "") {
			old.mixed = true
			return
		}
		old.shared, shared = true, true
		p.close(old)
	}
	r := p.begin(proc, e, e.ID)
	r.began, r.arrived, r.shared = true, e.at, shared
}

func (r *request) assembled(e *entry) { r.names(e) }

func (r *request) names(e *entry) {
	r.last = e.at
	if e.Incoming != "" || e.Target != "" {
		r.model, r.target = e.Incoming, e.Target
	}
}

func (r *request) handled(e *entry) {
	r.names(e)
	r.done, r.endpoint, r.current = true, clipTo(maxEndpoints, text(e.Endpoint)), nil
}

func (r *request) passedOn(e *entry) { r.last, r.passed = e.at, e.at }

func (r *request) unreadable(e *entry) { r.last, r.upstream = e.at, "unreadable-answer" }

// profileBegins opens the bracket of a profile run. One after the pick was made is
// that of another request of the same ID.
func (p *Parser) profileBegins(proc *process, e *entry) {
	if e.ID == "" {
		return
	}
	r := p.find(proc, e.ID)
	shared := r != nil && r.done
	if shared {
		r.shared = true
		p.close(r)
	}
	if r == nil || shared {
		r = p.begin(proc, e, e.ID)
		r.shared = shared
	}
	r.runBegins(e)
}

// runBegins takes a run within a run for that of another request.
func (r *request) runBegins(e *entry) {
	r.names(e)
	if r.current != nil {
		r.mixed = true
		return
	}
	r.current = newRun(e.Profile, e.at)
	if len(r.runs) < maxRuns {
		r.runs = append(r.runs, r.current)
	}
}

func (r *request) runEnds(e *entry) {
	r.last = e.at
	if r.current == nil {
		return
	}
	r.current.end = e.at
	if r.current.profile == "" {
		r.current.profile = e.Profile
	}
	r.current = nil
}

// answered is a piece of the answer.
func (p *Parser) answered(proc *process, e *entry) {
	r := p.find(proc, e.ID)
	if r == nil {
		p.stray(e.ID)
		return
	}
	r.last = e.at
	if r.first.IsZero() {
		r.first, r.streamed = e.at, !e.EndOfStream
	}
}

// ended is the end of the answer.
func (p *Parser) ended(proc *process, e *entry) {
	r := p.find(proc, e.ID)
	if r == nil {
		p.stray(e.ID)
		return
	}
	r.last, r.end = e.at, e.at
	p.close(r)
}

// stray notes an answer whose decision is not in the log.
func (p *Parser) stray(id string) {
	if id != "" {
		p.fates.add(id, fate{reason: "only its answer is in the log, which begins after its decision"})
	}
}
