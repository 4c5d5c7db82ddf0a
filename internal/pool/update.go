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
		m := &e.member
		targets = append(targets, engine.Target{
			ID: e.id, Name: m.Name, BaseURL: m.URL, Engine: m.engine(), GPUURL: m.GPUURL,
		})
	}
	return targets
}

// engineLabel is the label of a pod that names its engine, as llm-d's has it.
const engineLabel = "llm-d.ai/engine-type"

// engine is what the member is said to run; "" when nobody says, or something
// that is not known here: then its page tells.
func (m *Member) engine() string {
	if m.Engine != "" {
		return m.Engine
	}
	if e := m.Labels[engineLabel]; engine.Known(e) {
		return e
	}
	return ""
}

// Scraped takes the result of a scrape of a pod's metrics page. What a page says
// is taken over, also that a value is unknown; without a page the last values
// stay and grow stale. A scrape that started before one that was taken is too
// late.
func (p *Pool) Scraped(t engine.Target, s engine.Scrape) {
	defer p.tidy()
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byID[t.ID]
	start, end := p.since(s.Start), p.since(s.End)
	if e == nil || start < e.engine.lastStart {
		return
	}
	defer e.arrange(p.now(), p.cfg.Limits)
	e.engine.scrapes++
	e.engine.lastStart = start
	if s.Err != nil {
		e.engine.failures++
		e.engine.lastError = s.Err.Error()
		return
	}
	e.engine.lastError, e.engine.lastScrape = "", end
	e.scrapedQueue(&s.Page, start, end, p.cfg.Limits)
	e.scrapedLoad(&s.Page, end)
	if e.engine.kind != s.Page.Engine || len(e.engine.ranks) != len(s.Page.Ranks) {
		p.changeFeeds()
	}
	p.scrapedCache(e, &s.Page)
	e.engine.kind, e.engine.ranks = s.Page.Engine, s.Page.Ranks
	e.engine.blockSize, e.engine.blocks = s.Page.BlockSize, s.Page.NumBlocks
	if s.Page.AdaptersState.Known {
		e.scrapedAdapters = adapterList{
			reading: reading{at: end, source: score.SourceMetrics},
			names:   slices.Clone(s.Page.Adapters), max: s.Page.MaxAdapters,
		}
	}
}

func (e *endpoint) scrapedQueue(page *engine.Page, start, end instant, l Limits) {
	switch w := page.Waiting; {
	case w.Known:
		e.waiting = newer(e.waiting, reading{value: w.V, at: end, source: score.SourceMetrics, note: w.Series})
		e.reported(start, l)
	case e.waiting.source == score.SourceMetrics || !e.waiting.known():
		e.waiting = noneFor(w.Reason)
	}
}

func (e *endpoint) scrapedLoad(page *engine.Page, end instant) {
	e.runningLoad, e.kvLoad = none, noneFor(page.KVUsage.Reason)
	if r := page.Running; r.Known {
		e.running = reading{value: r.V, at: end, source: score.SourceMetrics}
		if e.member.MaxRunning > 0 {
			e.runningLoad = reading{value: r.V / float64(e.member.MaxRunning), at: end, source: score.SourceRunning, note: r.Series}
		}
	}
	if kv := page.KVUsage; kv.Known {
		e.kvLoad = reading{value: kv.V, at: end, source: score.SourceKVUsage, note: kv.Series}
	}
}

// Measured takes the result of a read of a pod's GPUs. What could not be read
// leaves the last values, which grow stale.
func (p *Pool) Measured(t engine.Target, m engine.Measurement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byID[t.ID]
	if e == nil || m.Err != nil {
		return
	}
	at := p.since(m.At)
	if at < e.vitals.measured {
		return
	}
	e.measured(&m.GPU, at)
	e.gpuLoad = none
	if u := m.GPU.Utilization; u.Known {
		e.gpuLoad = reading{value: u.V, at: at, source: score.SourceDCGM, note: u.Series}
	}
	e.arrange(p.now(), p.cfg.Limits)
}

// loadedAdapters is what is known of the adapters in the pod's memory. A report
// lists them all; a metrics page only those with requests, so that it adds to a
// fresh report and counts alone without one.
func (e *endpoint) loadedAdapters(now instant, l Limits) adapterList {
	reported, scraped := e.reportedAdapters, e.scrapedAdapters
	if !reported.known() || now > reported.expires(l) {
		if scraped.known() {
			return scraped
		}
		return reported
	}
	reported.max = max(reported.max, scraped.max)
	if scraped.at <= reported.at {
		return reported
	}
	for _, name := range scraped.names {
		if !slices.Contains(reported.names, name) {
			reported.names = append(slices.Clip(reported.names), name)
		}
	}
	return reported
}

// Probed takes the result of a health probe.
func (p *Pool) Probed(t engine.Target, probe engine.Probe) {
	defer p.tidy()
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byID[t.ID]; e != nil {
		if probe.Refused { // there is no process, and so no cache
			p.lapse(e)
		}
		p.probed(e, probe)
	}
}

// Refused says that a connection to the endpoint was refused: it counts as
// failed until a probe finds it well, from when it recovers.
func (p *Pool) Refused(name, address, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byKey[key{name, address}]; e != nil {
		p.probed(e, engine.Probe{Refused: true, Reason: reason, At: p.cfg.Clock.Now()})
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
	if e == nil || e.listed != nil && slices.Equal(e.listed, models) {
		return
	}
	e.listed = slices.Clone(models)
	p.rearrange()
	e.arrange(p.now(), p.cfg.Limits)
}
