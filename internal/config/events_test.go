package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/kvindex"
)

func TestEvents(t *testing.T) {
	for _, tc := range []struct{ name, file, problem string }{
		{"defaults", "", ""},
		{"off", "events: {enabled: false}", ""},
		{"all", "events: {port: 6000, replayPort: 6100, topic: kv@, onGap: clear, tierWeights: {gpu: 1, cpu: 0.5, disk: 0.25, external: 1}, limitSeconds: 5}", ""},
		{"one weight", "events: {tierWeights: {cpu: 0.5}}", ""},
		{"no port", "events: {port: 0}", "line 1: events.port: must be between 1 and 65535, got 0"},
		{"a port too high", "events: {replayPort: 65536}", "events.replayPort: must be between 0 and 65535"},
		{"one port for both", "events: {replayPort: 5557}", "events.replayPort: must be another than events.port"},
		{"an unknown word", "events: {onGap: forget}", `events.onGap: must be keep or clear, got "forget"`},
		{"a GPU that does not count", "events: {tierWeights: {gpu: 0}}", "line 1: events.tierWeights.gpu: must be 1, got 0"},
		{"a weight above the GPU's", "events:\n  tierWeights:\n    cpu: 1.5\n", "line 3: events.tierWeights.cpu: must be between 0 and 1, got 1.5"},
		{"a weight below 0", "events: {tierWeights: {disk: -0.1}}", "events.tierWeights.disk: must be between 0 and 1, got -0.1"},
		{"no number", "events: {tierWeights: {external: .nan}}", "events.tierWeights.external: must be between 0 and 1, got NaN"},
		{"a place for engines", `events: {listen: "0.0.0.0:5557"}`, ""},
		{"any port of any interface", `events: {listen: "*:0"}`, ""},
		{"an address with a scheme", "events:\n  listen: tcp://0.0.0.0:5557\n", `line 2: events.listen: must be HOST:PORT, such as 0.0.0.0:5557, got "tcp://0.0.0.0:5557"`},
		{"an address without a port", "events: {listen: router}", "events.listen: must be HOST:PORT"},
		{"a port that is none", "events: {listen: 'router:events'}", "events.listen: must be HOST:PORT"},
		{"no time", "events: {limitSeconds: 0}", "events.limitSeconds: must be between"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := parsed(t, tc.file)
			err := c.Validate(nil)
			if tc.problem == "" && err != nil || tc.problem != "" && (err == nil || !strings.Contains(err.Error(), tc.problem)) {
				t.Errorf("error %v, want %q", err, tc.problem)
			}
		})
	}
}

func TestEventsAsFeeds(t *testing.T) {
	c := parsed(t, "events: {port: 6000, replayPort: 6100, topic: kv@, onGap: clear, tierWeights: {disk: 0.25}, limitSeconds: 5}")
	want := kvfeed.Config{
		Port: 6000, ReplayPort: 6100, Topic: "kv@", OnGap: kvindex.Clear, Levels: []kvindex.Level{
			{Tiers: kvindex.Tiers(kvevent.GPU), Weight: 1, Name: "gpu"},
			{Tiers: kvindex.Tiers(kvevent.GPU, kvevent.Disk), Weight: 0.25, Name: "disk"},
		},
	}
	if diff := cmp.Diff(want, c.Events.Feeds(), cmpopts.EquateComparable(kvindex.Limits{})); diff != "" {
		t.Errorf("−want +got:\n%s", diff)
	}
	if l := c.PoolLimits(); l.Events.Seconds() != 5 {
		t.Errorf("limit %v", l.Events)
	}
}
