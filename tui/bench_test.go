package tui

import (
	"fmt"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/eppctl/eppctl/explain"
)

// A screen of pods, as it is drawn on each message: its cost must not grow with the
// fleet by more than the list does.
func BenchmarkScreen(b *testing.B) {
	for _, size := range [][2]int{{80, 24}, {160, 50}} {
		for _, pods := range []int{8, 100, 1000} {
			b.Run(fmt.Sprintf("%dx%d/pods=%d", size[0], size[1], pods), func(b *testing.B) {
				m := still(size[0], size[1], Look{Color: FullColor}, fleet(pods))
				m.why.rec = records(b)[3]
				b.ReportAllocs()
				for b.Loop() {
					m.screen()
				}
			})
		}
	}
}

// One step of the cursor through a large fleet, with the screen that follows.
func BenchmarkScroll(b *testing.B) {
	for _, pods := range []int{100, 1000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			m := still(160, 50, Look{Color: FullColor}, fleet(pods))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := tea.KeyPressMsg{Code: 'j', Text: "j"}
				if i/pods%2 == 1 {
					key = tea.KeyPressMsg{Code: 'k', Text: "k"}
				}
				m.Update(key)
				m.screen()
			}
		})
	}
}

// News of a fleet, sorted by a column.
func BenchmarkUpdate(b *testing.B) {
	for _, pods := range []int{8, 100, 1000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			snap := fleet(pods)
			m := still(160, 50, Look{Color: FullColor}, snap)
			m.pods.sort = "QUEUE"
			now := noon
			m.opt.Now = func() time.Time { return now }
			rows := someRows(40)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(3 * time.Second) // it sorts anew each time
				m.Update(Update{Snapshot: snap, Rows: rows})
			}
		})
	}
}

// Other weights on the recorded decisions: what a press of a key costs.
func BenchmarkTrial(b *testing.B) {
	list := records(b)
	var many []*explain.Record
	for len(many) < maxTried {
		many = append(many, list...)
	}
	knobs := knobsOf(&list[0].Weights)
	turn(knobs, 2, 4)
	for b.Loop() {
		try(many[:maxTried], knobs)
	}
}
