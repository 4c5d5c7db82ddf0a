package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

func TestChainsAndSplits(t *testing.T) {
	root := &vllm.Root{Adapter: "fr", SaltHash: "aa"}
	stored := []vllm.StoredBlock{
		{Hash: 1, First: true, Root: root},
		{Hash: 2, Parent: 1, Root: root},
		{Hash: 3, Parent: 2, Root: root},
		{Hash: 4, Parent: 2, Root: root}, // a branch
		{Hash: 5, Parent: 4, Root: root},
		{Hash: 6, First: true, Root: &vllm.Root{}},
	}
	got := Reports(report.Report{}, vllm.Changes{Stored: stored, Removed: []uint64{8, 9}}, 4)
	want := []*report.Report{
		{Removed: []uint64{8, 9}, Chains: []report.Chain{{Adapter: "fr", SaltHash: "aa", Root: true, Blocks: []uint64{1, 2}}}},
		{Removed: []uint64{}, Chains: []report.Chain{
			{Adapter: "fr", SaltHash: "aa", Parent: 2, Blocks: []uint64{3}},
			{Adapter: "fr", SaltHash: "aa", Parent: 2, Blocks: []uint64{4, 5}},
			{Root: true, Blocks: []uint64{6}},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	full := Reports(report.Report{}, vllm.Changes{Full: true, Stored: stored}, 5)
	if len(full) != 2 || !full[0].Full || full[1].Full {
		t.Errorf("a full report in two: %+v", full)
	}
	if empty := Reports(report.Report{}, vllm.Changes{}, 5); len(empty) != 1 {
		t.Errorf("nothing changed: %d reports, want 1", len(empty))
	}
}

func TestUsage(t *testing.T) {
	var u Usage
	for _, tt := range []struct {
		now, busy time.Duration
		want      *float64
	}{
		{0, 0, nil}, {2 * time.Second, time.Second, new(0.5)}, {4 * time.Second, 3 * time.Second, new(1.0)}, {6 * time.Second, 3 * time.Second, new(0.0)},
	} {
		if diff := cmp.Diff(tt.want, u.Read(tt.now, tt.busy)); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", tt.now, diff)
		}
	}
}

func TestMeter(t *testing.T) {
	const s = time.Second
	var m Meter
	for i, step := range []struct {
		now, busy time.Duration
		share     float64
	}{
		{0, 0, 0}, // nothing to measure yet
		{s / 2, s / 4, 0.5},
		{s, s / 4, 0.5}, // too short a window
		{5 * s / 2, s / 2, 0.125},
	} {
		if got := m.Read(step.now, step.busy); got != step.share {
			t.Errorf("reading %d: %v, want %v", i, got, step.share)
		}
	}
}
