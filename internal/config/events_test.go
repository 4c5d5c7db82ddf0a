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
		{"all", "events: {port: 6000, replayPort: 6100, topic: kv@, onGap: clear, tiers: [gpu, cpu, disk, external], limitSeconds: 5}", ""},
		{"no port", "events: {port: 0}", "line 1: events.port: must be between 1 and 65535, got 0"},
		{"a port too high", "events: {replayPort: 65536}", "events.replayPort: must be between 0 and 65535"},
		{"one port for both", "events: {replayPort: 5557}", "events.replayPort: must be another than events.port"},
		{"an unknown word", "events: {onGap: forget}", `events.onGap: must be keep or clear, got "forget"`},
		{"no tier", "events: {tiers: []}", "events.tiers: must not be empty"},
		{"an unknown tier", "events:\n  tiers: [gpu, GPU]\n", `line 2: events.tiers[1]: must be gpu, cpu, disk or external, got "GPU"`},
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
	c := parsed(t, "events: {port: 6000, replayPort: 6100, topic: kv@, onGap: clear, tiers: [gpu, disk], limitSeconds: 5}")
	want := kvfeed.Config{
		Port: 6000, ReplayPort: 6100, Topic: "kv@", OnGap: kvindex.Clear, Counted: kvindex.Tiers(kvevent.GPU, kvevent.Disk),
	}
	if diff := cmp.Diff(want, c.Events.Feeds(), cmpopts.EquateComparable(kvindex.Limits{})); diff != "" {
		t.Errorf("−want +got:\n%s", diff)
	}
	if l := c.PoolLimits(); l.Events.Seconds() != 5 {
		t.Errorf("limit %v", l.Events)
	}
}
