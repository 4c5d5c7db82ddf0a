package pool

import (
	"slices"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/score"
)

// Targets lists the members for a watcher of engines. The ID is new for each
// stay of an endpoint in the pool, so that late answers find nobody.
func (p *Pool) Targets() []engine.Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	targets := make([]engine.Target, 0, len(p.endpoints))
	for _, e := range p.endpoints {
		targets = append(targets, engine.Target{ID: e.id, Name: e.member.Name, BaseURL: e.member.URL})
	}
	return targets
}

// Scraped takes the result of a scrape of a pod's metrics page.
func (p *Pool) Scraped(t engine.Target, s engine.Scrape) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byID[t.ID]
	if e == nil {
		return
	}
	defer e.arrange(p.now(), p.cfg.Limits)
	start, end := p.since(s.Start), p.since(s.End)
	e.engine.scrapes++
	if s.Err != nil {
		// Values that were read before stay and grow stale.
		e.engine.failures++
		e.engine.lastError = s.Err.Error()
		e.note(score.QueueDepth, e.engine.lastError)
		e.note(score.Load, e.engine.lastError)
		return
	}
	e.engine.lastError, e.engine.lastScrape = "", end
	e.scrapedQueue(&s.Page, start, end)
	e.scrapedLoad(&s.Page, end)
	e.engine.kind = s.Page.Engine
	e.engine.blockSize, e.engine.blocks = s.Page.BlockSize, s.Page.NumBlocks
	if s.Page.AdaptersState.Known {
		e.adapters = adapterList{
			reading: reading{at: end, source: score.SourceMetrics},
			names:   slices.Clone(s.Page.Adapters), max: s.Page.MaxAdapters,
		}
	}
}

func (e *endpoint) scrapedQueue(page *engine.Page, start, end instant) {
	switch w := page.Waiting; {
	case w.Known:
		e.waiting = newer(e.waiting, reading{w.V, end, score.SourceMetrics})
		e.reported(start)
		e.note(score.QueueDepth, "")
	case e.waiting.source == score.SourceMetrics || !e.waiting.known():
		e.waiting = none
		e.note(score.QueueDepth, w.Reason)
	}
}

func (e *endpoint) scrapedLoad(page *engine.Page, end instant) {
	e.runningLoad, e.kvLoad = none, none
	if r := page.Running; r.Known {
		e.running = reading{r.V, end, score.SourceMetrics}
		if e.member.MaxRunning > 0 {
			e.runningLoad = reading{r.V / float64(e.member.MaxRunning), end, score.SourceRunning}
		}
	}
	if kv := page.KVUsage; kv.Known {
		e.kvLoad = reading{kv.V, end, score.SourceKVUsage}
		e.note(score.Load, "")
		return
	}
	e.note(score.Load, page.KVUsage.Reason)
}

// Probed takes the result of a health probe.
func (p *Pool) Probed(t engine.Target, probe engine.Probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byID[t.ID]; e != nil {
		p.probed(e, probe)
	}
}

func (p *Pool) probed(e *endpoint, probe engine.Probe) {
	health, note := 1.0, ""
	if !probe.Healthy {
		health, note = 0, probe.Reason
	}
	e.probe = reading{health, p.since(probe.At), score.SourceProbe}
	e.note(score.Health, note)
	e.arrange(p.now(), p.cfg.Limits)
}

// Refused says that a connection to the endpoint was refused: it counts as
// failed until a probe finds it well.
func (p *Pool) Refused(name, address, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byKey[key{name, address}]; e != nil {
		p.probed(e, engine.Probe{Reason: reason, At: p.cfg.Clock.Now()})
	}
}

// Listed takes the models that an engine serves.
func (p *Pool) Listed(t engine.Target, models []engine.Model, err error) {
	if err != nil {
		return // what it served before stands
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byID[t.ID]
	if e == nil || slices.Equal(e.listed, models) {
		return
	}
	e.listed = slices.Clone(models)
	e.models = nil
	c := &catalogue{names: map[string]Resolution{}}
	c.list(e)
	for _, r := range c.names {
		if !slices.Contains(e.models, r.Base) {
			e.models = append(e.models, r.Base)
		}
	}
	p.catalogue.Store(p.buildCatalogue())
}

// note sets the explanation of a factor's reading; "" removes it. Notes are
// replaced, never changed: decisions keep a pointer to them.
func (e *endpoint) note(factor int, text string) {
	if e.notes == nil && text == "" || e.notes != nil && e.notes[factor] == text {
		return
	}
	n := score.Notes{}
	if e.notes != nil {
		n = *e.notes
	}
	n[factor] = text
	e.notes = &n
	if n == (score.Notes{}) {
		e.notes = nil
	}
}
