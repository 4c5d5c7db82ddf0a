package pool

import (
	"errors"
	"testing"

	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/score"
)

func TestReportsInOrder(t *testing.T) {
	b := blocks(8)
	full := func(epoch, seq uint64, n int) *report.Report {
		return &report.Report{Pod: "a", Epoch: epoch, Seq: seq, Full: true, Model: "m", Chains: chain(b[:n])}
	}
	more := func(epoch, seq uint64, from, to int) *report.Report {
		return &report.Report{Pod: "a", Epoch: epoch, Seq: seq, Model: "m", Chains: []report.Chain{{Parent: b[from-1], Blocks: b[from:to]}}}
	}
	t.Run("an increment continues a full report", func(t *testing.T) {
		p, tree := newPool(t, "a", "b")
		if p.send(t, full(1, 1, 4)) || p.send(t, more(1, 2, 4, 8)) {
			t.Error("a resync was asked for")
		}
		if n := matched(p, tree, b, "a"); n != 8 {
			t.Errorf("%v blocks match, want 8", n)
		}
	})
	t.Run("a gap asks for everything, and counts once", func(t *testing.T) {
		p, tree := newPool(t, "a")
		p.send(t, full(1, 1, 4))
		for seq := uint64(4); seq < 7; seq++ {
			if !p.send(t, more(1, seq, 4, 8)) {
				t.Errorf("report %d after 1: no resync", seq)
			}
		}
		if v := p.Views()[0]; v.ReportGaps != 2 || v.Resyncs != 3 {
			t.Errorf("%d reports missed, %d resyncs; want 2, 3", v.ReportGaps, v.Resyncs)
		}
		if n := matched(p, tree, b, "a"); n != 4 {
			t.Errorf("%v blocks match, want the 4 of before the gap", n)
		}
	})
	t.Run("an increment of an unknown pod asks for everything", func(t *testing.T) {
		p, _ := newPool(t, "a")
		if !p.send(t, more(1, 7, 4, 8)) {
			t.Error("no resync")
		}
	})
	t.Run("a report that was overtaken changes nothing", func(t *testing.T) {
		p, tree := newPool(t, "a")
		p.send(t, full(1, 2, 8))
		if p.send(t, full(1, 1, 1)) || p.send(t, more(1, 2, 4, 8)) {
			t.Error("a resync was asked for")
		}
		if n := matched(p, tree, b, "a"); n != 8 {
			t.Errorf("%v blocks match, want 8", n)
		}
	})
	t.Run("a restart clears the pod, whose cache is then unknown", func(t *testing.T) { // case K3
		p, tree := newPool(t, "a")
		p.send(t, full(1, 5, 8))
		if !p.send(t, more(2, 1, 4, 8)) {
			t.Error("no resync after the restart")
		}
		if n := matched(p, tree, b, "a"); n != 0 {
			t.Errorf("%v blocks match after the restart, want 0", n)
		}
		if s := p.state(t, "a"); s.Cache.State != score.Unknown {
			t.Errorf("cache is %v, want unknown until the pod reports in full", s.Cache.State)
		}
		if p.send(t, more(1, 6, 4, 8)) {
			t.Error("a late report of the time before the restart asks for a resync")
		}
		p.send(t, full(2, 2, 2))
		if n := matched(p, tree, b, "a"); n != 2 {
			t.Errorf("%v blocks match after the full report, want 2", n)
		}
	})
	t.Run("a removed pod matches nothing under its old name", func(t *testing.T) { // case K3
		p, tree := newPool(t, "a")
		p.send(t, full(1, 1, 8))
		if err := p.Set(nil); err != nil {
			t.Fatal(err)
		}
		if err := p.Set(members("a")); err != nil {
			t.Fatal(err)
		}
		if n := matched(p, tree, b, "a"); n != 0 {
			t.Errorf("%v blocks match, want 0", n)
		}
		if !p.send(t, more(1, 2, 4, 8)) {
			t.Error("an increment of before it left was applied")
		}
	})
}

func TestReportsComeFromTheirPod(t *testing.T) {
	p, _ := newPool(t, "a")
	for _, tc := range []struct{ pod, from string }{{"nobody", "127.0.0.1"}, {"a", "10.0.0.9"}, {"a", ""}} {
		r := &report.Report{Pod: tc.pod, Epoch: 1, Seq: 1, Full: true, Model: "m", BlockSize: blockSize}
		if _, err := p.Report(r, tc.from); !errors.Is(err, ErrNotMember) {
			t.Errorf("a report of %s from %q gave %v", tc.pod, tc.from, err)
		}
	}
	r := &report.Report{Pod: "a", Epoch: 1, Seq: 1, Full: true, Model: "m", BlockSize: blockSize}
	if _, err := p.Report(r, "::ffff:127.0.0.1"); err != nil {
		t.Errorf("the same address as IPv4 in IPv6: %v", err)
	}
	if err := p.Set([]Member{{Name: "n", Address: "localhost:80"}}); err != nil {
		t.Fatal(err)
	}
	r.Pod = "n"
	if _, err := p.Report(r, "127.0.0.1"); err != nil {
		t.Errorf("a report of an endpoint with a host name: %v", err)
	}
}

func TestBlockSizes(t *testing.T) {
	tokens := make([]uint32, 128)
	fps := func(size int) []uint64 { return prefix.Fingerprints(nil, prefix.Root("m", "", ""), tokens, size) }
	for _, tc := range []struct {
		name         string
		size, blocks int
		want         float64 // blocks of 16
		state        score.State
	}{
		{"a multiple", 32, 2, 4, score.Known},
		{"a divisor", 8, 5, 2, score.Known},
		{"anything else", 24, 2, 0, score.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, tree := newPool(t, "a")
			p.send(t, &report.Report{Pod: "a", Epoch: 1, Seq: 1, Full: true, Model: "m", BlockSize: tc.size, Chains: chain(fps(tc.size)[:tc.blocks])})
			var q Query
			for _, size := range p.BlockSizes() {
				m := Match{BlockSize: size, Blocks: fps(size), Counts: make([]uint32, tree.Slots())}
				tree.Lookup(m.Blocks, m.Counts)
				q.Matches = append(q.Matches, m)
			}
			states, _ := p.States(nil, &q)
			if s := states[0]; s.Cache.Value != tc.want || s.Cache.State != tc.state {
				t.Errorf("%v blocks of 16, %v; want %v, %v", s.Cache.Value, s.Cache.State, tc.want, tc.state)
			}
			if s := states[0]; tc.state == score.Unknown && (s.Notes == nil || s.Notes[score.CacheMatch] != "unknown: block size 24") {
				t.Errorf("notes %v", s.Notes)
			}
		})
	}
}
