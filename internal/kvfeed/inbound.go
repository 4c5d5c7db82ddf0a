package kvfeed

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// Bounds of the connections that are made to the picker.
const (
	maxInbound = 1024
	// maxForeign is how many of them may come from where no target is.
	maxForeign = 256
	// maxSaid bounds the warnings, of which each is said once.
	maxSaid = 256
)

// Inbound are the figures of the connections that were made to the picker, since
// it began to listen.
type Inbound struct {
	Connections int    // now
	Unassigned  int    // of these, which have not yet sent a batch of a target's
	Accepted    uint64 // connections of publishers
	Refused     uint64 // over a limit: in all, from elsewhere, or of one target
	Failed      uint64 // that were none of a publisher
	Strangers   uint64 // messages that fit no target
	Unreadable  uint64 // messages, of a connection that had sent no batch yet
}

// inbound takes the connections that engines make, and gives each that is a
// target's to one of its ranks.
type inbound struct {
	feeds    *Feeds
	ctx      context.Context //nolint:containedctx // of Run, for what its connections do
	arrivals sync.Map        // each *arrival by the ID of its peer

	connections, unassigned, foreign atomic.Int64

	accepted, refused, failed, strangers, unreadable atomic.Uint64

	mu   sync.Mutex
	said map[string]bool // warnings
}

// An arrival is one connection. It belongs to the goroutine of that.
type arrival struct {
	host    string // where it came from
	foreign bool   // no target is there
	ended   bool   // from this side
	owner   *watch // nil until its first batch has shown whose it is
	listener
}

// Inbound are the figures of the connections that were made to the picker.
func (f *Feeds) Inbound() Inbound {
	in := &f.inbound
	return Inbound{
		Connections: int(in.connections.Load()), Unassigned: int(in.unassigned.Load()), Accepted: in.accepted.Load(), Refused: in.refused.Load(),
		Failed: in.failed.Load(), Strangers: in.strangers.Load(), Unreadable: in.unreadable.Load(),
	}
}

// listen takes connections until ctx ends. They have memory of their own: anybody
// may connect, and dialled ones shall have theirs.
func (in *inbound) listen(ctx context.Context) {
	in.ctx = ctx
	cfg := &in.feeds.cfg
	options := zmtp.Options{Topic: cfg.Topic, Peers: maxInbound, Limits: zmtp.Limits{Budget: zmtp.NewBudget(buffers)}}
	if err := zmtp.ServeSubscriber(ctx, cfg.Listener, options, in); err != nil {
		cfg.Logger.ErrorContext(ctx, "no engine can connect for KV events any more", slog.String(logkey.Reason, err.Error()))
	}
}

// Connected implements [zmtp.Handler].
func (in *inbound) Connected(p zmtp.Peer) {
	in.accepted.Add(1)
	in.connections.Add(1)
	in.unassigned.Add(1)
	a := &arrival{host: remoteHost(p.Address)}
	a.foreign = len(in.feeds.places.Load().at[a.host]) == 0
	in.arrivals.Store(p.ID, a)
	if a.foreign && in.foreign.Add(1) > maxForeign {
		in.refuse(a, p)
	}
}

// Message implements [zmtp.Handler].
func (in *inbound) Message(p zmtp.Peer, parts [][]byte) {
	a := in.arrival(p)
	if a.ended || a.owner == nil && !in.assign(a, p, parts) {
		return
	}
	a.listener.Message(p, parts)
}

// Disconnected implements [zmtp.Handler].
func (in *inbound) Disconnected(p zmtp.Peer, err error) {
	a := in.arrival(p)
	in.arrivals.Delete(p.ID)
	in.connections.Add(-1)
	if a.foreign {
		in.foreign.Add(-1)
	}
	if a.owner == nil {
		in.unassigned.Add(-1)
		return
	}
	a.owner.lose(a.listener, p, err)
}

// Failed implements [zmtp.Handler].
func (in *inbound) Failed(address string, err error) {
	if errors.Is(err, zmtp.ErrTooMany) {
		in.refused.Add(1)
	} else {
		in.failed.Add(1)
	}
	in.feeds.cfg.Logger.DebugContext(in.ctx, "connection for KV events not taken", slog.String(logkey.From, address), slog.String(logkey.Reason, err.Error()))
}

func (in *inbound) arrival(p zmtp.Peer) *arrival {
	v, _ := in.arrivals.Load(p.ID)
	return v.(*arrival) //nolint:forcetypeassert // nothing else is stored
}

func (in *inbound) refuse(a *arrival, p zmtp.Peer) {
	a.ended = true
	in.refused.Add(1)
	p.Close()
}

// assign finds out by a connection's first batch whose it is, and reports whether
// somebody's.
func (in *inbound) assign(a *arrival, p zmtp.Peer, parts [][]byte) bool {
	m, err := kvevent.ParseLive(parts)
	if err != nil {
		in.unreadable.Add(1)
		return false
	}
	w := in.feeds.places.Load().whose(a.host, m.Topic)
	if w == nil {
		in.strangers.Add(1)
		in.once(a.host, func(log *slog.Logger) {
			log.WarnContext(in.ctx, "KV events of nobody: neither the address nor the topic tells which endpoint sends them",
				slog.String(logkey.From, p.Address), slog.String(logkey.Topic, string(m.Topic[:min(len(m.Topic), maxTopic)])))
		})
		return false
	}
	var decoder kvevent.Decoder
	batch, err := decoder.Decode(m.Payload)
	if err != nil {
		in.unreadable.Add(1)
		return false
	}
	l, ok := w.admit(in.ctx, p, batch.Rank)
	if !ok {
		in.refuse(a, p)
		in.once(w.target.ID, func(log *slog.Logger) {
			log.WarnContext(in.ctx, "connection for KV events refused: the pod has too many, or is leaving",
				slog.String(logkey.From, p.Address), slog.String(logkey.Pod, w.target.Name))
		})
		return false
	}
	a.owner, a.listener = w, l
	in.unassigned.Add(-1)
	l.Connected(p)
	return true
}

// once says something about a subject that it has not been said of.
func (in *inbound) once(subject string, say func(*slog.Logger)) {
	in.mu.Lock()
	known := in.said[subject] || len(in.said) >= maxSaid
	if !known {
		in.said[subject] = true
	}
	in.mu.Unlock()
	if !known {
		say(in.feeds.cfg.Logger)
	}
}

// remoteHost is the host of a connection's other end, without the zone of an IPv6
// address.
func remoteHost(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return ""
	}
	return plainHost(at.Addr().String())
}

// plainHost writes an IP address in one way; names stay as they are.
func plainHost(host string) string {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return ip.Unmap().WithZone("").String()
}
