package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/explain"
)

// Column is a column of the pods table: how it is drawn, sorted, explained, and when
// it leaves a screen that is too narrow.
type Column struct {
	Name string
	// Help says what it is, and which direction is good.
	Help string
	// Wide columns are in lists with -o wide alone.
	Wide bool

	width int
	right bool
	leave int // the highest leaves first; 0 never does
	cell  func(*podCell) []span
	// value sorts; nil is the end of the list. Descending first, but for names.
	value func(*explain.PodSnapshot, int) *float64
	text  func(*explain.PodSnapshot) string
	sum   func(*podSum, *styles) string // over all pods; nil for none
}

// podCell is what a cell is made of.
type podCell struct {
	*podsData
	st    *styles
	p     *explain.PodSnapshot
	width int
}

// Columns are those of the pods table, in their order. The order of leaving follows
// from what one looks at first.
var columns = []Column{
	{
		Name: "POD", Help: "its name, cut in the middle where there is no room", width: 8, cell: podName,
		text: func(p *explain.PodSnapshot) string { return p.Pod },
		sum:  func(t *podSum, _ *styles) string { return t.name() },
	},
	{
		Name: "STATE", Help: "OK, HOT (far more than its share, and slow for it), FULL (its queue), STALE (old figures), SICK (health below 0.7), DOWN (kept out by health), DRAIN, NOTREADY, PREFILL (computes prompts for others), GONE (left, still has requests), UNKNOWN",
		width: 8, cell: podState, text: func(p *explain.PodSnapshot) string { return p.State },
		sum: func(t *podSum, _ *styles) string { return fmt.Sprintf("%d ok", t.ok) },
	},
	{
		Name: "PICKS", Help: "its share of the picks in the window; much more than the others is worth a look", width: 10, leave: 1, cell: podPicks,
		value: pickCount,
		sum:   func(t *podSum, st *styles) string { return st.fit(st.percent(t.share), 4, true) },
	},
	{
		Name: "CACHE", Help: "blocks of prompts that it is known to hold, and the share of prompt tokens that its engine found in its cache; higher is better", width: 15, leave: 3, cell: podCache,
		value: func(p *explain.PodSnapshot, _ int) *float64 { return p.CacheHitRatio },
		sum:   func(t *podSum, st *styles) string { return st.fit(st.wholeOf(t.blocks), 5, true) },
	},
	{
		Name: "QUEUE", Help: "requests that wait there, and picks that its figures can't show yet, of the limit; lower is better", width: 9, leave: 2, cell: podQueue,
		value: func(p *explain.PodSnapshot, _ int) *float64 { return new(depth(&p.Queue)) },
		sum:   func(t *podSum, st *styles) string { return st.fit(amount(t.depth), 3, true) },
	},
	{
		Name: "LOAD", Help: "how busy it is, 100% is all; lower is better for the next request", width: 4, right: true, leave: 4, cell: podLoad,
		value: func(p *explain.PodSnapshot, _ int) *float64 { return p.Load },
		sum:   func(t *podSum, st *styles) string { return st.percent(t.load) },
	},
	{
		Name: "HEALTH", Help: "1.00 is well, below 0.30 it gets no requests", width: 6, right: true, leave: 5, cell: podHealth,
		value: func(p *explain.PodSnapshot, _ int) *float64 { return p.Health },
	},
	{
		Name: "LORA", Help: "LoRA adapters that are loaded, of its slots", width: 5, right: true, leave: 7, cell: podLora,
		value: func(p *explain.PodSnapshot, _ int) *float64 { return adapterCount(p) },
		sum:   func(t *podSum, st *styles) string { return st.wholeOf(t.adapters) },
	},
	{
		Name: "AGE", Help: "how old its figures are; routing by old ones is routing blind", width: 5, right: true, leave: 6, cell: podAge,
		value: func(p *explain.PodSnapshot, _ int) *float64 { return p.AgeSeconds },
		sum:   func(t *podSum, st *styles) string { return st.age(t.age) },
	},
	{
		Name: "EVENTS", Help: "KV events a second, or what is wrong with their stream", width: 8, right: true, leave: 9, cell: podEvents, Wide: true,
		value: func(p *explain.PodSnapshot, _ int) *float64 { return eventRate(p) },
		sum:   func(t *podSum, st *styles) string { return st.rate(t.events) },
	},
	{
		Name: "TTFT95", Help: "time to the first token, of 95 in 100 requests of the last minute; lower is better", width: 6, right: true, leave: 10, Wide: true,
		cell:  func(c *podCell) []span { return []span{{text: c.st.latency(c.p.TTFTP95)}} },
		value: func(p *explain.PodSnapshot, _ int) *float64 { return p.TTFTP95 },
	},
	{
		Name: "RUN", Help: "requests that run there, as its engine says", width: 4, right: true, leave: 11, Wide: true,
		cell:  func(c *podCell) []span { return []span{{text: c.st.amountOf(c.p.Running)}} },
		value: func(p *explain.PodSnapshot, _ int) *float64 { return p.Running },
		sum:   func(t *podSum, st *styles) string { return st.amountOf(t.running) },
	},
	{
		Name: "KV", Help: "how full the engine's cache is: room, not reuse; near 100% it evicts", width: 4, right: true, leave: 12, Wide: true,
		cell:  func(c *podCell) []span { return []span{{text: c.st.percent(c.p.KVUsage)}} },
		value: func(p *explain.PodSnapshot, _ int) *float64 { return p.KVUsage },
	},
	{Name: "HISTORY", Help: "a figure of the last minutes, of which m chooses", width: 16, leave: 13, cell: podHistory},
	{
		Name: "WHY", Help: "why it is in its state", width: 24, leave: 14, Wide: true,
		cell: func(c *podCell) []span { return []span{{faint, c.p.Reason}} },
	},
}

func podName(c *podCell) []span { return []span{{strong, c.p.Pod}} }

// stateTone is how a state is drawn.
func stateTone(state string) tone {
	switch state {
	case explain.PodHot, explain.PodFull, explain.PodStale, explain.PodSick:
		return warn
	case explain.PodDown:
		return bad
	case explain.PodDraining, explain.PodNotReady, explain.PodPrefill, explain.PodGone, explain.PodUnknown:
		return faint
	}
	return plain
}

func podState(c *podCell) []span { return []span{{stateTone(c.p.State), c.p.State}} }

func podPicks(c *podCell) []span {
	share := c.share(c.p)
	t := accent
	if c.p.State == explain.PodHot {
		t = warn
	}
	scaled := share
	if share != nil {
		scaled = new(*share / c.scale)
	}
	return []span{{text: c.st.fit(c.st.permille(share), 4, true) + " "}, {t, c.st.bar(scaled, c.width-5)}}
}

func podCache(c *podCell) []span {
	return []span{
		{text: c.st.fit(c.st.wholeOf(c.p.CachedBlocks), 5, true) + " "},
		{accent, c.st.bar(c.p.CacheHitRatio, c.width-11)},
		{text: " " + c.st.fit(c.st.percent(c.p.CacheHitRatio), 4, true)},
	}
}

func podQueue(c *podCell) []span {
	q := &c.p.Queue
	waiting, t := c.st.amountOf(new(depth(q))), plain
	if q.Waiting == nil && q.Pending+q.PeerPending == 0 {
		waiting = c.st.glyphs.unknown
	}
	var part *float64
	if q.Max > 0 && waiting != c.st.glyphs.unknown {
		part = new(depth(q) / float64(q.Max))
	}
	switch {
	case q.Stale:
		t = faint
	case part != nil && *part >= 0.8:
		t = warn
	}
	barTone := accent
	if t == warn {
		barTone = warn
	}
	return []span{{t, c.st.fit(waiting, 3, true)}, {text: " "}, {barTone, c.st.bar(part, c.width-4)}}
}

func podLoad(c *podCell) []span {
	t := plain
	if c.p.Load != nil && *c.p.Load >= 0.9 {
		t = warn
	}
	return []span{{t, c.st.percent(c.p.Load)}}
}

func podHealth(c *podCell) []span {
	t := plain
	switch h := c.p.Health; {
	case h == nil:
	case *h < 0.3:
		t = bad
	case *h < 0.95:
		t = warn
	}
	return []span{{t, c.st.decimal(c.p.Health, 2)}}
}

func adapterCount(p *explain.PodSnapshot) *float64 {
	if p.Adapters.Loaded == nil {
		return nil
	}
	return new(float64(len(p.Adapters.Loaded)))
}

func podLora(c *podCell) []span {
	a := &c.p.Adapters
	if a.Loaded == nil && a.Max == nil {
		return []span{{text: c.st.glyphs.unknown}}
	}
	return []span{{text: c.st.amountOf(adapterCount(c.p)) + "/" + c.st.wholeOf(a.Max)}}
}

func podAge(c *podCell) []span {
	t := plain
	if c.p.AgeSeconds == nil || *c.p.AgeSeconds > 5 {
		t = warn
	}
	return []span{{t, c.st.age(c.p.AgeSeconds)}}
}

func eventRate(p *explain.PodSnapshot) *float64 {
	if p.Stream == nil {
		return nil
	}
	return &p.Stream.EventsPerSecond
}

func podEvents(c *podCell) []span {
	switch s := c.p.Stream; {
	case s == nil:
		return []span{{text: c.st.glyphs.unknown}}
	case s.Connected == 0:
		return []span{{bad, "OFF"}}
	case s.Connected < s.Ranks:
		return []span{{warn, fmt.Sprintf("%d of %d", s.Connected, s.Ranks)}}
	case s.Degraded != "":
		return []span{{warn, "PARTIAL"}}
	default:
		return []span{{text: c.st.rate(&s.EventsPerSecond)}}
	}
}

func podHistory(c *podCell) []span {
	return []span{{accent, c.st.spark(c.history.of(c.p, c.metric), c.width)}}
}

// sorted is the order of the pods by a column; the names settle what is equal, so
// that equal pods stay in place. An empty name is the order by name.
func sorted(pods []explain.PodSnapshot, by string, window int, reverse bool) []int {
	order := make([]int, len(pods))
	for i := range order {
		order[i] = i
	}
	at := slices.IndexFunc(columns, func(c Column) bool { return c.Name == by })
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &pods[i], &pods[j]
		c := 0
		if at >= 0 {
			c = columns[at].compare(a, b, window)
		}
		if reverse {
			c = -c
		}
		return cmp.Or(c, natural(a.Pod, b.Pod), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	if reverse && (by == "" || by == "POD") {
		slices.Reverse(order)
	}
	return order
}

// natural compares names so that numbers in them count: pod-2 comes before pod-10.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			one, two := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
			if c := cmp.Or(cmp.Compare(len(one), len(two)), cmp.Compare(one, two)); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			break
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(a, b)
}

// digits is how many digits a text begins with.
func digits(text string) (n int) {
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n
}

func (col *Column) compare(a, b *explain.PodSnapshot, window int) int {
	switch {
	case col.value != nil:
		x, y := col.value(a, window), col.value(b, window)
		switch {
		case x == nil || y == nil:
			return -cmp.Compare(boolRank(x != nil), boolRank(y != nil))
		default:
			return -cmp.Compare(*x, *y)
		}
	case col.Name == "STATE":
		return cmp.Compare(gravity(a.State), gravity(b.State))
	case col.Name == "POD" || col.text == nil:
		return 0 // by name
	}
	return cmp.Compare(col.text(a), col.text(b))
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// gravity puts first what somebody should look at first.
func gravity(state string) int {
	return slices.Index([]string{
		explain.PodDown, explain.PodFull, explain.PodHot, explain.PodStale, explain.PodSick, explain.PodNotReady, explain.PodUnknown,
		explain.PodGone, explain.PodDraining, explain.PodPrefill, explain.PodOK,
	}, state)
}

// sortable are the names of the columns that pods can be sorted by.
func sortable() (names []string) {
	for i := range columns {
		if columns[i].value != nil || columns[i].text != nil {
			names = append(names, columns[i].Name)
		}
	}
	return names
}
