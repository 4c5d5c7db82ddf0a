package tui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/eppctl/eppctl/explain"
)

// That there is no news from the cluster stands in the header, where a line is blank or
// else in place of what tells least. Nothing else moves.
func TestSilenceOfTheCluster(t *testing.T) {
	const text = " ! cluster: API server away for 2m10s, routing on the last known 12 pods"
	for _, c := range []struct{ w, h, line int }{{160, 50, 3}, {80, 24, 3}, {80, 16, 1}, {60, 12, 1}, {40, 8, 1}} {
		t.Run(fmt.Sprintf("%dx%d", c.w, c.h), func(t *testing.T) {
			snap := fleet(3)
			before := still(c.w, c.h, Look{}, snap).screen()
			snap.Router.Silence = &explain.Silence{Since: noon.Add(-130 * time.Second), Pods: 12}
			m := still(c.w, c.h, Look{}, snap)
			for i, line := range m.screen() {
				switch {
				case i != c.line && line != before[i]:
					t.Errorf("line %d is %q, and was %q", i, line, before[i])
				case i == c.line && strings.TrimRight(ansi.Strip(line), " ")[:30] != text[:30]:
					t.Errorf("line %d is %q", i, line)
				case i == c.line && c.w >= 80 && !strings.HasPrefix(ansi.Strip(line), text):
					t.Errorf("line %d is %q", i, line)
				}
			}
		})
	}
	t.Run("a verdict that tells something stays", func(t *testing.T) {
		snap := hot()
		before := still(40, 8, Look{}, snap).screen()
		snap.Router.Silence = &explain.Silence{Since: noon, Pods: 12}
		if after := still(40, 8, Look{}, snap).screen(); after[1] != before[1] {
			t.Errorf("it is %q, and was %q", after[1], before[1])
		}
	})
	t.Run("text from the wire", func(t *testing.T) {
		snap := fleet(3)
		snap.Router.Silence = &explain.Silence{Since: noon, Of: "\x1b[31mpods"}
		if line := still(80, 24, Look{}, snap).screen()[3]; strings.Contains(line, "\x1b") {
			t.Errorf("the line is %q", line)
		}
	})
}
