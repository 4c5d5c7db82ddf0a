package tui

// pane is a part of the screen.
type pane uint8

const (
	paneNone pane = iota
	paneTitle
	paneRates
	paneVerdict
	paneCluster
	panePods
	paneFeed
	paneEvents
	paneFooter
	// What opens in place of pods and feed, or beside the feed where there is room.
	paneWhy
	paneWhatIf
	paneDetail
	paneAdapters
	paneIndex
	paneHelp
	paneTooSmall
)

// rect is where a pane stands.
type rect struct {
	pane       pane
	x, y, w, h int
}

// The sizes from which a screen has more.
const (
	leastWidth, leastHeight   = 40, 8   // a strip: title, verdict, pods
	smallWidth, smallHeight   = 60, 16  // the feed too
	fullWidth, fullHeight     = 140, 36 // the reasons beside the feed
	footerHeight, ratesHeight = 10, 12  // in a strip
	spaceHeight               = 20      // blank lines
)

// plan is what a layout depends on.
type plan struct {
	w, h    int
	open    pane // fills the body; paneNone for pods and feed
	compact bool // never more than small
}

func (p plan) full() bool  { return p.w >= fullWidth && p.h >= fullHeight && !p.compact }
func (p plan) strip() bool { return p.w < smallWidth || p.h < smallHeight }

// layout says where the panes stand. They do not overlap; sections have heights that
// depend on the size alone, so that nothing moves when data changes. A line is one
// cell shorter than the screen, so that no terminal wraps it.
func layout(p plan) []rect {
	w := p.w - 1
	if p.w < leastWidth || p.h < leastHeight {
		return []rect{{paneTooSmall, 0, 0, max(w, 0), max(p.h, 0)}}
	}
	s := stack{w: w, bottom: p.h}
	s.down(paneTitle, 1)
	if !p.strip() || p.h >= ratesHeight {
		s.down(paneRates, 1)
	}
	s.down(paneVerdict, 1)
	if !p.strip() || p.h >= footerHeight {
		s.up(paneFooter, 1)
	}
	if p.h >= spaceHeight {
		s.down(paneCluster, 1) // blank, but when there is something to say
	}
	switch {
	case p.open != paneNone:
		s.down(p.open, s.bottom-s.top)
	case p.strip():
		s.down(panePods, s.bottom-s.top)
	default:
		p.overview(&s)
	}
	return s.rects
}

// overview places pods, feed and events, and what else there is room for.
func (p plan) overview(s *stack) {
	events := 1
	if p.full() {
		events = 3
	}
	s.up(paneEvents, events)
	if p.h >= spaceHeight {
		s.bottom--
	}
	left := s.bottom - s.top
	feed := max((left-4)/3, 3) + 1 // with its header
	if p.full() {
		feed = left * 11 / 20
	}
	if left-feed-1 < 6 {
		feed = 0 // pods come first
	}
	if feed > 0 {
		at := s.bottom - feed
		if p.full() {
			w := s.w * 11 / 20
			why := feed - min(feed/2, 16) // the weights take nine lines
			s.rects = append(s.rects, rect{paneFeed, 0, at, w, feed},
				rect{paneWhy, w + 3, at, s.w - w - 3, why}, rect{paneWhatIf, w + 3, at + why, s.w - w - 3, feed - why})
		} else {
			s.rects = append(s.rects, rect{paneFeed, 0, at, s.w, feed})
		}
		s.bottom = at - 1
	}
	s.down(panePods, s.bottom-s.top)
}

// stack places panes from the top down and from the bottom up.
type stack struct {
	w, top, bottom int
	rects          []rect
}

func (s *stack) down(p pane, h int) {
	s.rects = append(s.rects, rect{p, 0, s.top, s.w, h})
	s.top += h
}

func (s *stack) up(p pane, h int) {
	s.bottom -= h
	s.rects = append(s.rects, rect{p, 0, s.bottom, s.w, h})
}

// find is the place of a pane; false when it is not on the screen.
func find(rects []rect, p pane) (rect, bool) {
	for _, r := range rects {
		if r.pane == p {
			return r, true
		}
	}
	return rect{}, false
}
