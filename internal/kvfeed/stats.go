package kvfeed

import (
	"math"
	"time"

	"github.com/eppctl/eppctl/internal/kvindex"
)

// Stats are the figures of one stream. Those without a word of time count since
// the stream was opened.
type Stats struct {
	kvindex.Stats
	Rank           int
	Events, Replay string // addresses; Replay "": missed ones can't be had
	Inbound        bool   // the engine has connected to the picker, from Events

	Connected   bool
	Unconfirmed bool
	Since       time.Time // it is connected, or not; zero: never yet
	Connections uint64
	LastError   string        // of connecting or of the connection that ended
	LastMessage time.Time     // by our clock; zero: none yet
	LastAge     time.Duration // since LastMessage
	PerSecond   float64       // events, of the last some ten seconds

	Messages     uint64
	Unreadable   uint64 // messages whose frames are not those of a batch
	DecodeErrors uint64 // batches that could not be decoded
	Strangers    uint64 // messages whose topic names a pod that no endpoint is
	OtherRank    uint64 // batches that say that they are another rank's

	ReplaysFailed uint64 // of those that were done: they did not come to their end
	ReplaysSpared uint64 // counted as done, and not asked for so soon after one that broke off
}

// window is about how far back a rate looks.
const window = 10 * time.Second

// rate is an average that fades.
type rate struct {
	perSecond float64
	at        time.Time
}

func (r *rate) add(n int, now time.Time) {
	r.perSecond, r.at = r.of(now)+float64(n)/window.Seconds(), now
}

func (r *rate) of(now time.Time) float64 {
	return r.perSecond * math.Exp(-max(0, now.Sub(r.at).Seconds())/window.Seconds())
}
