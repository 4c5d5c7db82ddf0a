package tui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
)

// outside is a fleet that another picker routes, as metrics tell it.
func outside(picker bool) *explain.Snapshot {
	s := fleet(4)
	s.Source, s.Router = explain.SourceMetrics, explain.RouterState{Version: "llm-d v0.10.0"}
	s.Index = explain.IndexState{Blocks: new(732)}
	s.Missing = []string{"decisions, and what decided: metrics do not tell them", "streams of KV events, and the blocks that pods hold"}
	s.Verdict = explain.FleetVerdict{Code: explain.VerdictOK, Message: "nothing stands out in the metrics of 4 pods"}
	s.Events = []explain.FleetEvent{}
	for i := range s.Windows {
		w := &s.Windows[i]
		*w = explain.WindowRates{Seconds: w.Seconds, Decisions: w.Decisions, MatchRatio: w.MatchRatio, PickP50: w.PickP50, PickP99: w.PickP99, TTFTP95: w.TTFTP95}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		p.DecidedBy, p.Served, p.CachedBlocks, p.CacheSource, p.Load, p.LoadSource, p.Health, p.Stream = nil, 0, nil, "", nil, "", nil, nil
		p.Queue = explain.QueueSnapshot{Waiting: p.Queue.Waiting}
		if !picker {
			p.Picks, p.PicksShare = nil, nil
		}
	}
	s.Pods[3] = explain.PodSnapshot{Pod: "chat-3", Endpoint: "10.0.0.4:8000", State: explain.PodDown, Reason: "connection refused: nothing listens there"}
	if picker {
		s.Router.Server = "http://10.0.0.1:9090"
	}
	return s
}

// What metrics do not tell is unknown on every pane, and no zero.
func TestFromOutside(t *testing.T) {
	for name, picker := range map[string]bool{"outside": true, "outside-engines": false} {
		for _, size := range [][2]int{{160, 50}, {80, 24}} {
			for suffix, open := range map[string]pane{"": paneNone, "-detail": paneDetail, "-index": paneIndex, "-adapters": paneAdapters} {
				if !picker && open != paneNone {
					continue
				}
				t.Run(fmt.Sprintf("%s%s-%dx%d", name, suffix, size[0], size[1]), func(t *testing.T) {
					m := still(size[0], size[1], Look{}, nil)
					m.Update(Update{Snapshot: outside(picker)})
					m.open = open
					golden.Equal(t, "testdata/"+strings.TrimPrefix(t.Name(), "TestFromOutside/")+".txt", visible(m.screen()))
				})
			}
		}
	}
	m := still(80, 24, Look{}, nil)
	m.Update(Update{Snapshot: outside(true)})
	if m.explain(); m.flash != "decisions are not known here" {
		t.Errorf("asked to explain, it says %q", m.flash)
	}
}
