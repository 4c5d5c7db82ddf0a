package admin

import (
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/pool"
)

// PodStream is the KV events of one rank of a pod's engine. Counts are since the
// picker began to listen to it, with these addresses and for this model.
type PodStream struct {
	Rank      int        `json:"rank"`
	Events    string     `json:"events"`            // address
	Inbound   bool       `json:"inbound,omitempty"` // the engine has connected to the picker, from there
	Replay    string     `json:"replay,omitempty"`  // address; "" = missed ones can't be had
	Connected bool       `json:"connected"`
	Since     *time.Time `json:"since"` // it is connected, or not; null = never yet
	// Degraded says why the picture is not whole; "" = it is.
	Degraded        string         `json:"degraded,omitempty"`
	Unconfirmed     bool           `json:"unconfirmed,omitempty"` // nothing has come since it was connected again
	UpperBound      bool           `json:"upperBound,omitempty"`  // hybrid attention: the engine may find less
	BlockSizeTokens *int           `json:"blockSizeTokens"`       // of the engine; null = not known
	Mismatch        *int           `json:"mismatchTokens,omitempty"`
	Blocks          int            `json:"blocks"` // of the engine that it holds
	Tiers           map[string]int `json:"tiers"`  // of these in each; some are in several
	LastEvent       *time.Time     `json:"lastEvent"`
	LastEventAge    *float64       `json:"lastEventAgeSeconds"`
	EventsPerSecond float64        `json:"eventsPerSecond"`
	LastError       string         `json:"lastError,omitempty"`
	Counts          StreamCounts   `json:"counts"`
}

// StreamCounts are what has come by a stream, and what has not.
type StreamCounts struct {
	Connections     uint64 `json:"connections"`
	Stored          uint64 `json:"stored"`
	Removed         uint64 `json:"removed"`
	Cleared         uint64 `json:"cleared"`
	Batches         uint64 `json:"batches"`
	Gaps            uint64 `json:"gaps"`
	Missed          uint64 `json:"missed"` // batches
	Restarts        uint64 `json:"restarts"`
	Replays         uint64 `json:"replays"`
	ReplaysFailed   uint64 `json:"replaysFailed"`
	ReplaysSpared   uint64 `json:"replaysSpared"`
	Recovered       uint64 `json:"recovered"` // batches, by replay
	Duplicates      uint64 `json:"duplicates"`
	Orphans         uint64 `json:"orphans"` // blocks
	UnknownParents  uint64 `json:"unknownParents"`
	UnknownRemovals uint64 `json:"unknownRemovals"`
	Dropped         uint64 `json:"dropped"` // blocks, for want of room
	Unreadable      uint64 `json:"unreadable"`
	DecodeErrors    uint64 `json:"decodeErrors"`
	Skipped         uint64 `json:"skipped"`
	Strangers       uint64 `json:"strangers"`
	OtherRank       uint64 `json:"otherRank"`
	Corrected       uint64 `json:"corrected"` // blocks
}

func streamsOf(v *pool.View) []PodStream {
	var out []PodStream
	for i := range v.Streams {
		s := &v.Streams[i]
		p := PodStream{
			Rank: s.Rank, Events: s.Events, Inbound: s.Inbound, Replay: s.Replay, Connected: s.Connected, Since: timeOrNull(s.Since),
			Degraded: s.Degraded.String(), Unconfirmed: s.Unconfirmed, UpperBound: s.Hybrid,
			BlockSizeTokens: countOrNull(s.BlockSize), Mismatch: countOrNull(s.Mismatch),
			Blocks: s.Blocks, Tiers: tiersOf(s), LastEvent: timeOrNull(s.LastMessage), EventsPerSecond: s.PerSecond,
			LastError: s.LastError, Counts: countsOf(s),
		}
		if !s.LastMessage.IsZero() {
			p.LastEventAge = new(s.LastAge.Seconds())
		}
		out = append(out, p)
	}
	return out
}

func tiersOf(s *kvfeed.Stats) map[string]int {
	tiers := map[string]int{}
	for t, n := range s.Tiers {
		if n > 0 {
			tiers[kvevent.Tier(t).String()] = n
		}
	}
	return tiers
}

func countsOf(s *kvfeed.Stats) StreamCounts {
	events := &s.Stats.Events
	return StreamCounts{
		Connections: s.Connections, Stored: events[kvevent.Stored], Removed: events[kvevent.Removed], Cleared: events[kvevent.Cleared],
		Batches: s.Batches, Gaps: s.Gaps, Missed: s.Missed, Restarts: s.Restarts,
		Replays: s.Replays, ReplaysFailed: s.ReplaysFailed, ReplaysSpared: s.ReplaysSpared, Recovered: s.Recovered, Duplicates: s.Duplicates,
		Orphans: s.Orphans, UnknownParents: s.UnknownParents, UnknownRemovals: s.UnknownRemovals, Dropped: s.Dropped + s.OrphansDropped,
		Unreadable: s.Unreadable, DecodeErrors: s.DecodeErrors, Skipped: s.Skipped, Strangers: s.Strangers, OtherRank: s.OtherRank,
		Corrected: s.Corrected,
	}
}
