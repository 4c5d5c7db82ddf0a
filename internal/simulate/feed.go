package simulate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/sim/status"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// A feed is the KV events of one pod, as package kvfeed hands them on, without the
// sockets.
type feed struct {
	picking *picking
	rank    *kvindex.Rank
	slot    prefix.Slot
	state   kvfeed.State
	seq     uint64    // of the next batch
	lost    time.Time // when the pod died
	memory  []kvevent.Event
}

// listen opens the stream of a pod.
func (k *picking) listen(t engine.Target) (*feed, error) {
	f := &feed{picking: k}
	levels := kvindex.GPUAlone()
	slots, ok := k.pool.RankOpened(t.ID, 0, levels, f)
	if !ok {
		return nil, fmt.Errorf("no place for the KV events of %s", t.Name)
	}
	f.slot = slots[0]
	f.rank = kvindex.New(kvindex.Config{
		Tree: k.tree, Slots: slots, Levels: levels, Model: k.run.cfg.Profile.Model, BlockSize: vllm.TokensPerBlock, Removed: f.removed,
	})
	f.tell(kvfeed.State{Connected: true})
	return f, nil
}

// Stats implements [kvfeed.Stream].
func (f *feed) Stats() kvfeed.Stats {
	return kvfeed.Stats{Stats: f.rank.Stats(), Connected: f.state.Connected}
}

// Mark implements [kvfeed.Stream].
func (f *feed) Mark() kvindex.Mark { return f.rank.Mark() }

// Correct implements [kvfeed.Stream].
func (f *feed) Correct(a kvindex.Answer) { f.rank.Correct(a) }

// tell tells the pool what has changed.
func (f *feed) tell(s kvfeed.State) {
	if s != f.state {
		f.state = s
		f.picking.pool.RankChanged(f.slot, s)
	}
}

func (f *feed) removed(blocks []uint64, at time.Time) {
	if blocks != nil {
		f.picking.pool.RankEvicted(f.slot, blocks, at)
	}
}

func (k *picking) events(p *pod, b *vllm.Batch) {
	f := k.feeds[p.index]
	f.memory = status.Events(f.memory[:0], b, k.loraID)
	out := f.rank.Apply(f.seq, &kvevent.Batch{At: epoch.Add(b.At), Events: f.memory})
	f.seq++
	if out.Restarted && !f.lost.IsZero() {
		k.pool.RankEvicted(f.slot, nil, f.lost)
	}
	s := f.state
	s.Unconfirmed, s.BlockSize = false, vllm.TokensPerBlock
	f.tell(s)
}

// connected is the connection of a pod's events; a pod that comes back counts from 0.
func (k *picking) connected(p *pod, up bool) {
	if k.feeds == nil {
		return
	}
	f := k.feeds[p.index]
	s := f.state
	s.Connected, s.Unconfirmed = up, up
	if up {
		f.seq = 0
	} else {
		f.lost = k.clock.Now()
	}
	f.tell(s)
}

// loraID is the number of an adapter, counted from 1; −1 for the base model.
func (k *picking) loraID(adapter string) int64 {
	for i, a := range k.run.cfg.Trace.Adapters {
		if a.Name == adapter {
			return int64(i + 1)
		}
	}
	return -1
}

var errDown = errors.New("connection refused")

func reasonDown(p *pod) string {
	if p.engine == nil {
		return errDown.Error()
	}
	return ""
}

func known(v float64) engine.Value { return engine.Value{V: v, Known: true} }

// percent is a share as an exporter says it, in whole points.
func percent(share float64) float64 { return math.Round(100*share) / 100 }

// page is what a scrape of the pod's metrics says.
func page(p *pod, now time.Duration) engine.Page {
	s := p.engine.Stats(now)
	return engine.Page{
		Engine:  "vllm",
		Waiting: known(float64(s.Waiting)), Running: known(float64(s.Running)), KVUsage: known(float64(s.Held) / float64(s.Blocks)),
		BlockSize: vllm.TokensPerBlock, NumBlocks: s.Blocks,
		Adapters: joined(s.RunningAdapters, s.WaitingAdapters), AdaptersState: known(float64(len(s.RunningAdapters))),
		MaxAdapters: p.cfg.MaxAdapters,
		Prompts:     known(float64(s.Prompt)),
	}
}

// joined are the names of two sorted lists, each once.
func joined(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
