package tui

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLayout(t *testing.T) {
	for _, c := range []struct {
		plan plan
		want []rect
	}{
		{plan{w: 39, h: 24}, []rect{{paneTooSmall, 0, 0, 38, 24}}},
		{plan{w: 20, h: 5}, []rect{{paneTooSmall, 0, 0, 19, 5}}},
		{plan{w: 40, h: 8}, []rect{{paneTitle, 0, 0, 39, 1}, {paneVerdict, 0, 1, 39, 1}, {panePods, 0, 2, 39, 6}}},
		{plan{w: 50, h: 12}, []rect{
			{paneTitle, 0, 0, 49, 1}, {paneRates, 0, 1, 49, 1}, {paneVerdict, 0, 2, 49, 1}, {paneFooter, 0, 11, 49, 1}, {panePods, 0, 3, 49, 8},
		}},
		{plan{w: 80, h: 24}, []rect{
			{paneTitle, 0, 0, 79, 1},
			{paneRates, 0, 1, 79, 1},
			{paneVerdict, 0, 2, 79, 1},
			{paneFooter, 0, 23, 79, 1},
			{paneCluster, 0, 3, 79, 1},
			{paneEvents, 0, 22, 79, 1},
			{paneFeed, 0, 16, 79, 5},
			{panePods, 0, 4, 79, 11},
		}},
		{plan{w: 80, h: 24, open: paneWhy}, []rect{
			{paneTitle, 0, 0, 79, 1}, {paneRates, 0, 1, 79, 1}, {paneVerdict, 0, 2, 79, 1}, {paneFooter, 0, 23, 79, 1}, {paneCluster, 0, 3, 79, 1}, {paneWhy, 0, 4, 79, 19},
		}},
		{plan{w: 100, h: 28}, []rect{
			{paneTitle, 0, 0, 99, 1},
			{paneRates, 0, 1, 99, 1},
			{paneVerdict, 0, 2, 99, 1},
			{paneFooter, 0, 27, 99, 1},
			{paneCluster, 0, 3, 99, 1},
			{paneEvents, 0, 26, 99, 1},
			{paneFeed, 0, 19, 99, 6},
			{panePods, 0, 4, 99, 14},
		}},
		{plan{w: 160, h: 50}, []rect{
			{paneTitle, 0, 0, 159, 1},
			{paneRates, 0, 1, 159, 1},
			{paneVerdict, 0, 2, 159, 1},
			{paneFooter, 0, 49, 159, 1},
			{paneCluster, 0, 3, 159, 1},
			{paneEvents, 0, 46, 159, 3},
			{paneFeed, 0, 23, 87, 22},
			{paneWhy, 90, 23, 69, 11},
			{paneWhatIf, 90, 34, 69, 11},
			{panePods, 0, 4, 159, 18},
		}},
		{plan{w: 160, h: 50, compact: true}, []rect{
			{paneTitle, 0, 0, 159, 1},
			{paneRates, 0, 1, 159, 1},
			{paneVerdict, 0, 2, 159, 1},
			{paneFooter, 0, 49, 159, 1},
			{paneCluster, 0, 3, 159, 1},
			{paneEvents, 0, 48, 159, 1},
			{paneFeed, 0, 33, 159, 14},
			{panePods, 0, 4, 159, 28},
		}},
	} {
		t.Run(fmt.Sprintf("%dx%d-%d", c.plan.w, c.plan.h, c.plan.open), func(t *testing.T) {
			if diff := cmp.Diff(c.want, layout(c.plan), cmp.AllowUnexported(rect{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// At every size the panes lie within the screen, one cell short of its right end, and
// do not overlap.
func TestLayoutNeverOverlaps(t *testing.T) {
	for w := 1; w <= 220; w++ {
		for h := 1; h <= 80; h++ {
			for _, open := range []pane{paneNone, paneWhy} {
				rects := layout(plan{w: w, h: h, open: open})
				for i, a := range rects {
					if a.x < 0 || a.y < 0 || a.w < 0 || a.h < 0 || a.x+a.w > max(w-1, 0) || a.y+a.h > h {
						t.Fatalf("%dx%d: %+v leaves the screen", w, h, a)
					}
					for _, b := range rects[i+1:] {
						if a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h {
							t.Fatalf("%dx%d: %+v and %+v overlap", w, h, a, b)
						}
					}
				}
			}
		}
	}
}
