package tui

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// noon is the time of all screens.
var noon = time.Date(2026, 11, 30, 14, 23, 7, 0, time.UTC)

// fleet is a snapshot of so many pods, most of them well.
func fleet(pods int) *explain.Snapshot {
	s := &explain.Snapshot{
		APIVersion: explain.APIVersion, Kind: explain.KindSnapshot, Time: noon, TimeScale: 1, Source: "picker", Missing: []string{},
		Router: explain.RouterState{
			Server: "127.0.0.1:9091", Models: "chat-70b", Pool: "prod", Uptime: 3600, MaxQueue: 20, InFlight: 9,
			Weights: explain.Weights{Cache: .6, Load: .2, Queue: .1, Health: .05, Adapter: .05, MaxQueue: 20, MaxUtilization: 1, Saturation: "relax"},
		},
		Index: explain.IndexState{Blocks: new(67000), Bytes: new(int64(9 << 20)), EventsPerSecond: new(412.0), LastHeard: new(0.2), Streams: pods, Connected: pods},
	}
	decisions := []int{205, 2460, 12300}
	for i, seconds := range explain.WindowSeconds {
		s.Windows = append(s.Windows, explain.WindowRates{
			Seconds: seconds, Decisions: decisions[i], Ties: decisions[i] / 50, Completed: decisions[i] - 9, Stale: decisions[i] / 250,
			MatchRatio: new(.63), PickP50: new(.0001), PickP99: new(.0004), TTFTP50: new(.21), TTFTP95: new(.512),
		})
	}
	for i := range pods {
		s.Pods = append(s.Pods, somePod(i, pods, decisions))
	}
	s.Events = []explain.FleetEvent{
		{Time: noon.Add(-9 * time.Second), Pod: "chat-2", Code: "hot", Text: "wait 6, load 91%"},
		{Time: noon.Add(-36 * time.Second), Pod: "chat-5", Code: "down", Text: "connection refused"},
	}
	s.Verdict = explain.FleetVerdict{Code: explain.VerdictOK, Message: fmt.Sprintf("all %d pods take requests, nothing stands out", pods)}
	return s
}

func somePod(i, pods int, decisions []int) explain.PodSnapshot {
	p := explain.PodSnapshot{
		Pod: fmt.Sprintf("chat-%d", i), Endpoint: fmt.Sprintf("10.0.%d.%d:8000", i/200, i%200+1), State: explain.PodOK,
		DecidedBy: map[string]int{"cacheMatch": 200, "queueDepth": 31, "tieSeed": 4}, Served: 230,
		CachedBlocks: new(8000 + 137*(i%9)), CacheSource: "events", CacheHitRatio: new(.5 + float64(i%5)/20), KVUsage: new(.7),
		Queue:   explain.QueueSnapshot{Waiting: new(float64(i % 3)), InFlight: 3 + i%3, Max: 20},
		Running: new(3.0), Load: new(.5 + float64(i%4)/50), LoadSource: "report", Health: new(1.0), Signals: []string{},
		Adapters: explain.AdapterState{Loaded: []string{"de", "fr"}[:i%3%2+1], Max: new(4)}, TTFTP95: new(.4), AgeSeconds: new(.4),
		Stream: &explain.StreamState{Ranks: 1, Connected: 1, EventsPerSecond: 51, AgeSeconds: new(.1)},
	}
	for k := range decisions {
		p.Picks = append(p.Picks, decisions[k]/pods)
	}
	p.PicksShare = new(1 / float64(pods))
	return p
}

// everyState is a fleet with a pod in each state.
func everyState() *explain.Snapshot {
	states := []string{
		explain.PodOK, explain.PodHot, explain.PodFull, explain.PodStale, explain.PodSick, explain.PodDown,
		explain.PodDraining, explain.PodNotReady, explain.PodGone, explain.PodUnknown,
	}
	s := fleet(len(states))
	for i, state := range states {
		p := &s.Pods[i]
		if p.State = state; i > 0 {
			p.Reason = "for a reason in words"
		}
	}
	s.Pods[2].Queue.Waiting = new(20.0)
	s.Pods[3].AgeSeconds, s.Pods[3].Queue.Stale = new(6.8), true
	s.Pods[4].Health, s.Pods[4].Signals = new(.8), []string{"XID 63: -0.20"}
	s.Pods[5].Health = new(.0)
	unknown := &s.Pods[9]
	*unknown = explain.PodSnapshot{Pod: unknown.Pod, Endpoint: unknown.Endpoint, State: explain.PodUnknown, Picks: []int{0, 0, 0}, Queue: explain.QueueSnapshot{Max: 20}}
	s.Verdict = explain.FleetVerdict{
		Code: explain.VerdictStale, Message: "chat-3's figures are 6.8s old and count 0; it gets 10% of picks", Pod: "chat-3",
		Since: new(noon.Add(-3 * time.Second)), Key: "enter", Evidence: []string{"no answer to the last 5 scrapes"}, Also: []string{explain.VerdictHotPod},
	}
	return s
}

// hot is a fleet of eight of which one is hot.
func hot() *explain.Snapshot {
	s := fleet(8)
	for i := range s.Pods {
		s.Pods[i].Picks, s.Pods[i].PicksShare = []int{23, 276, 1390}, new(.112)
	}
	p := &s.Pods[2]
	p.Picks, p.PicksShare = []int{67, 763, 3800}, new(.31)
	p.Load, p.Queue.Waiting, p.CachedBlocks, p.CacheHitRatio = new(.91), new(6.0), new(15200), new(.82)
	s.Pods[4].State, s.Pods[4].AgeSeconds, s.Pods[4].Reason = explain.PodOK, new(4.1), ""
	s.Pods[5].State, s.Pods[5].Reason, s.Pods[5].Health, s.Pods[5].AgeSeconds = explain.PodDown, "connection refused", new(.0), new(31.0)
	s.Pods[5].Picks, s.Pods[5].PicksShare = []int{0, 41, 160}, new(.017)
	s.Pods[5].Load, s.Pods[5].CachedBlocks, s.Pods[5].CacheHitRatio, s.Pods[5].Stream = nil, nil, nil, &explain.StreamState{Ranks: 1}
	p.State, p.Reason = explain.PodHot, "it takes 31% of picks"
	s.Verdict = explain.FleetVerdict{
		Code: explain.VerdictHotPod, Message: "chat-2 takes 31% of picks, 2.8x the median; 6 requests wait there", Pod: "chat-2",
		Since: new(noon.Add(-42 * time.Second)), Key: "e", Evidence: []string{"200 of 235 picks were decided by cacheMatch"},
	}
	return s
}

// someRows are decisions, the newest first.
func someRows(n int) []explain.Row {
	rows := make([]explain.Row, n)
	by := []string{"cacheMatch", "queueDepth", "tieSeed", "load"}
	for i := range rows {
		rows[i] = explain.Row{
			Time: noon.Add(-time.Duration(i) * 25 * time.Millisecond), RequestID: fmt.Sprintf("%08x-aa", 0x91c2f0a7-i*0xbeef),
			DecisionID: fmt.Sprintf("d-%d", i), Model: "chat-70b", Tokens: new(200 + 977*(i%9)), Picked: fmt.Sprintf("chat-%d", i%5),
			Score: new(.77 - float64(i%4)/10), Margin: new(.31 - float64(i%3)/10), DecidedBy: by[i%4], Over: fmt.Sprintf("chat-%d", (i+1)%5),
			Took: .0001, State: "done", Status: new(200), TTFTSeconds: new(.2),
		}
	}
	if n > 3 {
		rows[3].Picked, rows[3].Refused, rows[3].Score, rows[3].Margin, rows[3].Over = "", "saturated", nil, nil, ""
		rows[3].DecidedBy = ""
		rows[3].Flags = []string{explain.FlagRefused}
	}
	return rows
}

// records are those of the repository.
func records(tb testing.TB) (list []*explain.Record) {
	tb.Helper()
	f, err := os.Open("../testdata/decisions/fleet.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rec := new(explain.Record)
		if err := json.Unmarshal(lines.Bytes(), rec); err != nil {
			tb.Fatal(err)
		}
		list = append(list, rec)
	}
	return list
}

// still is a model that has seen a snapshot, without a program around it.
func still(w, h int, look Look, snap *explain.Snapshot) *Model {
	opt := Options{Look: look, Width: w, Height: h, Interval: time.Second, Now: func() time.Time { return noon }}
	m := newModel(opt, asks{
		decision: func(string) (*explain.Record, error) { return nil, errors.New("not here") },
		recent:   func(int) ([]*explain.Record, error) { return nil, nil },
	}, NewPace(time.Second))
	if snap != nil {
		m.Update(Update{Snapshot: snap, Rows: someRows(40)})
	}
	return m
}
