package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/telemetry"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// buildFeeds makes what listens to the KV events of the pool's endpoints; nil when
// nothing is to be listened to.
func (s *Server) buildFeeds() {
	c := &s.opts.Config
	if !c.Events.Enabled {
		return
	}
	feeds := c.Events.Feeds()
	feeds.Tree, feeds.BlockSize, feeds.Clock, feeds.Logger = s.tree, c.BlockSize, s.clock, s.log
	if s.listeners.events != nil {
		feeds.Listener = s.listeners.events
	}
	s.feeds = kvfeed.New(feeds, s.pool)
}

// follow listens to the endpoints as they come and go, and to each from when it is
// known what it serves.
func (s *Server) follow(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.pool.FeedsChanged():
			s.feeds.SetTargets(s.pool.Feeds())
		}
	}
}

// streams are the streams of KV events of all pods, for metrics.
func (s *Server) streams() []telemetry.PodStreams {
	var out []telemetry.PodStreams
	for _, v := range s.pool.Views() {
		if len(v.Streams) > 0 {
			out = append(out, telemetry.PodStreams{Pod: v.State.Pod, Streams: v.Streams})
		}
	}
	return out
}

// checkEvents checks where an endpoint's KV events are said to be.
func checkEvents(m *pool.Member) error {
	if m.Events == "false" { // YAML's off without quotes
		m.Events = pool.EventsOff
	}
	switch m.Events {
	case "", pool.EventsOff:
		if m.Replay != "" {
			return errors.New("replay: is of no use without events: give the address of both, or of none to have the server asked")
		}
		return nil
	case pool.EventsListen:
	default:
		if err := zmtp.CheckAddress(m.Events); err != nil {
			return fmt.Errorf("events: must be %s, %s or an address such as tcp://10.0.0.1:5557: %w", pool.EventsOff, pool.EventsListen, err)
		}
	}
	if m.Replay == "" {
		return nil
	}
	if err := zmtp.CheckAddress(m.Replay); err != nil {
		return fmt.Errorf("replay: must be an address such as tcp://10.0.0.1:5657: %w", err)
	}
	return nil
}
