package pool

import (
	"time"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/health"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/score"
)

// View is an endpoint as operators see it.
type View struct {
	State score.PodState // as a decision without a prompt sees it
	// TreeBlocks is the number of blocks that the prefix tree holds for it, added up
	// over its ranks.
	TreeBlocks int
	Running    score.Reading // requests that the engine last reported as running

	Engine            string // vllm, sglang, trtllm; "" = not known
	BlockSize, Blocks int    // of the engine; 0 = not known
	// Ranks are those of a data parallel engine, as it last said; not to be changed.
	Ranks             []engine.Rank
	Scrapes, Failures uint64
	LastError         string
	LastScrape        time.Time     // zero = none yet
	ScrapeAge         time.Duration // of the last one
	Listed            bool          // it has said which models it serves
	// Health is what the health in State was judged by; nil when that is not fresh.
	Health *health.Assessment

	ReportEpoch, ReportSeq uint64
	LastReport             time.Time // zero = none yet
	Reports                uint64
	ReportGaps, Resyncs    uint64
	// Streams are those of its KV events, by rank.
	Streams []kvfeed.Stats
	// Departed: it left the pool and still has requests running.
	Departed bool
}

// EngineRequests is how many requests the engine last said it has, running and
// waiting; false when that is not known. With one picker it is what the picker has
// in flight there, but for the time between the two.
func (v *View) EngineRequests() (n float64, known bool) {
	running, waiting := v.Running, v.State.Waiting
	if !running.State.Usable() || !waiting.State.Usable() {
		return 0, false
	}
	return running.Value + waiting.Value, true
}

// Views are all endpoints, those that left with requests running included.
func (p *Pool) Views() []View {
	views, streams := p.views()
	for i, ranks := range streams {
		for _, stats := range ranks {
			views[i].Streams = append(views[i].Streams, stats())
		}
	}
	return views
}

// views are the views without their streams, and what to ask about these: not
// under the pool's lock, which those who answer need.
func (p *Pool) views() (views []View, streams [][]func() kvfeed.Stats) {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	views = make([]View, 0, len(p.endpoints)+len(p.departed))
	for _, e := range p.endpoints {
		views = append(views, p.view(e, now))
		var ranks []func() kvfeed.Stats
		for _, r := range e.ranks {
			ranks = append(ranks, r.stream.Stats)
		}
		streams = append(streams, ranks)
	}
	for _, e := range p.departed {
		v := p.view(e, now)
		v.Departed, v.TreeBlocks = true, 0
		v.State.Excluded = score.NotInPool
		views = append(views, v)
	}
	return views, streams
}

// treeBlocks is the number of blocks that count as the endpoint's, in whatever tier:
// the sum over its ranks.
func (p *Pool) treeBlocks(e *endpoint) (n int) {
	switch e.cache.source {
	case score.SourceEvents:
	case score.SourceAssumed:
		return p.cfg.Tree.PodBlocks(e.assumed.slot)
	default:
		return p.cfg.Tree.PodBlocks(e.slot)
	}
	for _, r := range e.ranks {
		n += p.cfg.Tree.PodBlocks(r.slots[len(r.slots)-1])
	}
	return n
}

func (p *Pool) view(e *endpoint, now instant) View {
	running := e.running.shown()
	age(&running, now, e.running.at, e.running.expires(p.cfg.Limits))
	state := e.state(now, p.cfg.Limits)
	v := View{
		State: state, TreeBlocks: p.treeBlocks(e),
		Running: running,
		Engine:  e.engine.kind, Ranks: e.engine.ranks, BlockSize: e.engine.blockSize, Blocks: e.engine.blocks,
		Scrapes: e.engine.scrapes, Failures: e.engine.failures, LastError: e.engine.lastError, Listed: e.listed != nil,
		LastScrape: p.time(e.engine.lastScrape), ScrapeAge: time.Duration(now - e.engine.lastScrape),
		ReportEpoch: e.report.epoch, ReportSeq: e.report.seq, LastReport: p.time(e.report.at), Reports: e.report.count,
		ReportGaps: e.report.gaps, Resyncs: e.report.resyncs,
	}
	if state.Health.State == score.Known {
		v.Health = new(e.vitals.assessment)
	}
	return v
}

// InFlight is the ledger: the requests that were given to endpoints and have
// not ended.
func (p *Pool) InFlight() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		n += e.inFlight
	}
	for _, e := range p.departed {
		n += e.inFlight
	}
	return n
}
