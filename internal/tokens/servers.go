package tokens

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/internal/logkey"
)

const (
	// mostFailures in a row of a server, and of all of a model, open their breakers.
	mostFailures    = 2
	mostFailuresAll = 4
	// lackingPause is how long a server is left alone that has no such route or
	// model.
	lackingPause = time.Minute
	// longText, in bytes: that a prompt of more takes too long says nothing of the
	// server; others as long are then not asked for during longPause.
	longText  = 64 << 10
	longPause = 30 * time.Second
	// mostServers bounds what is remembered of servers, and of models.
	mostServers = 8192
)

// server is somebody to ask about one model.
type server struct {
	name, url, root string
	render          bool

	calls   int // under way; guarded by the asker, as the breaker
	breaker breaker
}

// asker knows the servers and makes the calls.
type asker struct {
	source    Source
	list      func(base string) []Server
	most      int
	transport http.RoundTripper
	owned     bool // the transport is ours to close
	log       *slog.Logger
	latency   histogram
	results   [outcomes]atomic.Uint64
	busy      atomic.Uint64

	mu      sync.Mutex
	render  *server // nil without one
	servers map[string]*server
	calls   int
	models  map[string]*breaker // by base model: of all its servers together
	turn    int
	// tooLong, in bytes, is the shortest long question that was not answered in
	// time lately.
	tooLong      int
	tooLongUntil time.Time
}

func newAsker(cfg *Config) *asker {
	k := &asker{
		source: cfg.Source, list: cfg.Servers, most: cfg.MaxCalls, transport: cfg.Transport, log: cfg.Logger,
		servers: map[string]*server{}, models: map[string]*breaker{},
	}
	if k.transport == nil {
		k.transport, k.owned = newTransport(), true
	}
	if cfg.RenderURL != "" && (cfg.Source == SourceAuto || cfg.Source == SourceRender) {
		k.render = &server{name: "render", url: strings.TrimRight(cfg.RenderURL, "/"), render: true}
	}
	return k
}

func (k *asker) close() {
	if t, ok := k.transport.(*http.Transport); ok && k.owned {
		t.CloseIdleConnections()
	}
}

func (k *asker) asksEngines() bool { return k.source == SourceAuto || k.source == SourceEngine }

// silent: nobody is asked for a model now, not even for a probe.
func (k *asker) silent(base string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.all(base).admits(now)
}

// all is the breaker of all servers of a base model. Another model's may well
// answer. The caller holds mu.
func (k *asker) all(base string) *breaker {
	b := k.models[base]
	if b == nil {
		if len(k.models) >= mostServers {
			clear(k.models)
		}
		b = new(breaker)
		k.models[base] = b
	}
	return b
}

// candidate is a server with its load at the moment.
type candidate struct {
	*server
	load float64
}

// before orders servers: a render server first, then whoever has less to do.
func (c *candidate) before(d *candidate) bool {
	switch {
	case d.server == nil:
		return true
	case c.render != d.render:
		return c.render
	case c.calls != d.calls:
		return c.calls < d.calls
	}
	return c.load < d.load
}

// choose takes the server to ask, which then counts as called, and one to be
// probed beside it, for which nobody must wait; nil for none. Those that were
// asked already are left out.
func (k *asker) choose(p *plan, asked []*server, now time.Time) (first, probe *server) {
	var listed []Server
	if k.asksEngines() {
		listed = k.list(p.base)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	candidates := k.candidates(p, listed)
	all := k.all(p.base)
	var best candidate
	k.turn++
	for i := range candidates {
		c := &candidates[(i+k.turn)%len(candidates)]
		switch {
		case slices.Contains(asked, c.server):
		case all.closed() && c.breaker.closed():
			if c.before(&best) {
				best = *c
			}
		case asked == nil && all.admits(now) && c.breaker.admits(now):
			probe = c.server
		}
	}
	first, probe = k.taken(best.server), k.taken(probe)
	if probe != nil {
		all.probing, probe.breaker.probing = !all.closed(), !probe.breaker.closed()
	}
	return first, probe
}

// taken is the server, whose call is counted, or nil when there is none, or no room
// for a call.
func (k *asker) taken(s *server) *server {
	if s == nil || !k.take(s) {
		return nil
	}
	return s
}

// take counts a call, if there is room for one.
func (k *asker) take(s *server) bool {
	if k.calls >= k.most {
		k.busy.Add(1)
		return false
	}
	k.calls++
	s.calls++
	return true
}

func (k *asker) reserve(s *server) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.take(s)
}

// candidates are the servers that understand a question.
func (k *asker) candidates(p *plan, listed []Server) []candidate {
	list := make([]candidate, 0, len(listed)+1)
	if k.render != nil {
		list = append(list, candidate{server: k.render})
	}
	for i := range listed {
		l := &listed[i]
		switch {
		case l.Engine == "trtllm": // has no such route
			continue
		case l.Engine == "sglang" && p.ask.chat: // takes texts only
			continue
		}
		list = append(list, candidate{k.known(l, p.model), l.Load})
	}
	return list
}

// known is what is remembered of a server for a model.
func (k *asker) known(l *Server, model string) *server {
	id := l.ID + "\x00" + model
	s := k.servers[id]
	if s == nil {
		if len(k.servers) >= mostServers {
			clear(k.servers)
		}
		s = &server{name: l.ID, url: strings.TrimRight(l.URL, "/"), root: l.Root}
		k.servers[id] = s
	}
	return s
}

// ask makes a call that was chosen or reserved.
func (k *asker) ask(ctx context.Context, s *server, q *question) ([]uint32, outcome) {
	began := wallTime()
	ids, out := k.post(ctx, s, q)
	if ctx.Err() == nil || out == outcomeOK {
		k.latency.observe(wallTime().Sub(began))
	}
	return ids, out
}

// release ends a call that says nothing of its server.
func (k *asker) release(s *server) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls--
	s.calls--
}

// unprobe lets another probe go out in place of one that came to nothing.
func (k *asker) unprobe(s *server, base string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all(base).probing, s.breaker.probing = false, false
}

// long: questions of that size are not answered in time.
func (k *asker) long(q *question, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return q.size() >= k.tooLong && now.Before(k.tooLongUntil)
}

// judge draws the consequences of how a call went.
func (k *asker) judge(s *server, p *plan, out outcome) {
	k.results[out].Add(1)
	now := wallTime()
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.all(p.base)
	if size := p.ask.size(); out == outcomeTimeout && size > longText {
		if now.After(k.tooLongUntil) || size < k.tooLong {
			k.tooLong, k.tooLongUntil = size, now.Add(longPause)
		}
		all.probing, s.breaker.probing = false, false
		return
	}
	opened, closed := false, false
	switch out {
	case outcomeOK, outcomeRefused:
		s.breaker.succeeded()
		closed = all.succeeded()
	case outcomeLacking:
		s.breaker.open(now, lackingPause)
		if all.probing {
			all.failed(now, mostFailuresAll)
		}
	case outcomeFailed, outcomeTimeout:
		s.breaker.failed(now, mostFailures)
		opened = all.failed(now, mostFailuresAll)
	case outcomes:
	}
	if opened {
		k.log.Warn("nobody gives token ids in time, prompts are tokenised approximately", slog.String(logkey.Model, p.base), slog.String(logkey.Pod, s.name), slog.String(logkey.Reason, out.String()))
	}
	if closed {
		k.log.Info("token ids are to be had again", slog.String(logkey.Model, p.base), slog.String(logkey.Pod, s.name))
	}
}

// open is whether there is a model of which nobody is asked, and how many servers
// are left alone.
func (k *asker) open() (all bool, servers int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.servers {
		if !s.breaker.closed() {
			servers++
		}
	}
	if k.render != nil && !k.render.breaker.closed() {
		servers++
	}
	for _, b := range k.models {
		all = all || !b.closed()
	}
	return all, servers
}
