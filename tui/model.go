package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/eppctl/eppctl/explain"
)

// maxRows bounds the decisions that are listed.
const maxRows = 1000

// Model is the state of the screen. Update alone changes it.
type Model struct {
	opt  Options
	asks asks
	pace *Pace

	plan
	st     *styles
	focus  pane // of the overview
	window int  // in the snapshot's windows
	metric int

	snap    *explain.Snapshot
	got     time.Time // when snap came
	err     error     // why no newer one came
	failed  time.Time // since when
	retry   time.Time
	held    *Update   // what came while it was paused
	paused  time.Time // zero while it runs
	play    *Playback
	resume  float64 // the speed that a replay goes on at
	history history
	blurred bool

	pods   podList
	feed   feedList
	why    whyState
	whatIf whatIfState
	scroll int // of the pane that is open

	input     editor
	inputFor  rune // '/' or ':'; 0 when it is closed
	flash     string
	flashTill time.Time
}

// asks are the questions that a command puts to the source.
type asks struct {
	decision func(id string) (*explain.Record, error)
	recent   func(limit int) ([]*explain.Record, error)
	step     func(frames int)
	play     func(speed float64)
	save     func(*explain.Snapshot, []*explain.Record) (string, error)
	other    func(namespace, pool string) (where string, err error) // nil when there is no other
}

const (
	midWindow  = 1
	flashTime  = 6 * time.Second
	tickTime   = time.Second
	blurred    = 5 * time.Second // the interval while nobody looks
	playFaster = 2.0
)

func newModel(opt Options, a asks, pace *Pace) *Model {
	m := &Model{
		opt: opt, asks: a, pace: pace, focus: panePods, window: midWindow,
		resume: 1,
		snap:   &explain.Snapshot{}, st: newStyles(opt.Look),
	}
	m.w, m.h, m.compact = opt.Width, opt.Height, opt.Compact
	return m
}

// What comes back from commands. The numbers say which question it answers.
type (
	tickMsg     struct{}
	decisionMsg struct {
		asked int
		rec   *explain.Record
		err   error
	}
	recentMsg struct {
		asked   int
		records []*explain.Record
		err     error
	}
	trialMsg struct {
		asked  int
		result *trialResult
	}
	savedMsg struct {
		path string
		err  error
	}
	otherMsg struct {
		where string
		err   error
	}
)

// Init asks what the terminal looks like, and for the decision to begin with.
func (m *Model) Init() tea.Cmd {
	cmds := []tea.Cmd{tea.RequestBackgroundColor}
	if !m.opt.ReduceMotion {
		cmds = append(cmds, tick())
	}
	if m.opt.Explain != "" {
		m.open = paneWhy
		cmds = append(cmds, m.askWhy(m.opt.Explain))
	}
	return tea.Batch(cmds...)
}

// tick makes the ages on the screen go on.
func tick() tea.Cmd { return tea.Tick(tickTime, func(time.Time) tea.Msg { return tickMsg{} }) }

// Update takes a message in.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.w, m.h = msg.Width, msg.Height
	case tea.BackgroundColorMsg:
		if light := !msg.IsDark(); light != m.st.look.Light {
			look := m.st.look
			look.Light = light
			m.st = newStyles(look)
		}
	case tea.FocusMsg:
		m.blurred = false
		m.pace.Set(m.opt.Interval)
	case tea.BlurMsg:
		m.blurred = true
		m.pace.Set(max(m.opt.Interval, blurred))
	case tea.KeyPressMsg:
		cmd = m.press(msg)
	case tea.PasteMsg:
		if m.inputFor != 0 {
			cmd = m.edit(msg)
		}
	case tea.MouseWheelMsg:
		cmd = m.wheel(msg)
	case tea.MouseClickMsg:
		m.click(msg)
	case tickMsg:
		cmd = tick()
	case Update:
		cmd = m.receive(msg)
	default:
		cmd = m.answer(msg)
	}
	m.settle()
	return m, cmd
}

// answer takes in what a command came back with. Answers to older questions are
// dropped.
func (m *Model) answer(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case decisionMsg:
		if msg.asked == m.why.asked {
			m.why.rec, m.why.err = msg.rec, msg.err
		}
	case recentMsg:
		if msg.asked != m.whatIf.asked {
			return nil
		}
		m.whatIf.records, m.whatIf.err = msg.records, msg.err
		return m.askTrial()
	case trialMsg:
		if msg.asked == m.whatIf.asked {
			m.whatIf.result, m.whatIf.waiting = msg.result, false
		}
	case savedMsg:
		if msg.err != nil {
			m.say(msg.err.Error())
		} else {
			m.say("saved to " + msg.path)
		}
	case otherMsg:
		if msg.err != nil {
			m.say(msg.err.Error())
		} else {
			m.say(msg.where)
		}
	}
	return nil
}

// receive takes news in, or keeps them while the screen is paused.
func (m *Model) receive(u Update) tea.Cmd {
	now := m.opt.Now()
	if u.Anew {
		m.forget()
	}
	if u.Play != nil {
		if m.play = u.Play; u.Play.Speed > 0 {
			m.resume = u.Play.Speed
		}
	}
	m.feed.add(u.Rows, u.Whole)
	if u.Snapshot == nil {
		if m.err == nil {
			m.failed = now
		}
		m.err, m.retry = u.Err, now.Add(u.Retry)
		return nil
	}
	m.err = nil
	m.history.see(u.Snapshot)
	if !m.paused.IsZero() {
		m.held = &u
		return nil
	}
	m.show(u.Snapshot)
	if m.full() && m.why.id == "" && len(m.feed.rows) > 0 {
		return m.askWhy(m.feed.rows[0].DecisionID)
	}
	return nil
}

// forget drops what is known of the picker that was looked at. Questions that are open
// are about it, and their answers are not wanted any more.
func (m *Model) forget() {
	m.snap, m.got, m.err, m.held, m.paused = &explain.Snapshot{}, time.Time{}, nil, nil, time.Time{}
	m.history = history{}
	m.pods = podList{sort: m.pods.sort, reverse: m.pods.reverse}
	m.feed = feedList{}
	m.why = whyState{asked: m.why.asked + 1}
	m.whatIf = whatIfState{asked: m.whatIf.asked + 1}
	m.open, m.focus, m.scroll = paneNone, panePods, 0
}

func (m *Model) show(s *explain.Snapshot) {
	now := m.opt.Now()
	m.snap, m.got = s, now
	m.window = min(m.window, max(len(s.Windows)-1, 0))
	m.whatIf.sync(&s.Router.Weights)
	m.pods.strip = m.strip()
	m.pods.sortAt(s.Pods, m.window, now, false)
}

// settle keeps cursors on what they are on, and lists where they are seen.
func (m *Model) settle() {
	rects := layout(m.plan)
	if r, ok := find(rects, panePods); ok {
		d := podsData{strip: m.strip()}
		m.pods.reveal(m.snap, d.rows(r.h))
	}
	m.feed.choose(m.pods.filter, m.pods.names(m.snap))
	if r, ok := find(rects, paneFeed); ok {
		m.feed.reveal(r.h - 1)
	}
	if m.flash != "" && m.opt.Now().After(m.flashTill) {
		m.flash = ""
	}
}

// say shows a line for some seconds.
func (m *Model) say(text string) { m.flash, m.flashTill = text, m.opt.Now().Add(flashTime) }

// active is the pane that keys are for.
func (m *Model) active() pane {
	if m.open != paneNone {
		return m.open
	}
	if _, there := find(layout(m.plan), m.focus); there {
		return m.focus
	}
	return panePods
}

// askWhy asks for a decision to explain.
func (m *Model) askWhy(id string) tea.Cmd {
	m.why.asked++
	m.why.id, m.why.rec, m.why.err, m.why.scroll = id, nil, nil, 0
	asked, ask := m.why.asked, m.asks.decision
	return func() tea.Msg {
		rec, err := ask(id)
		return decisionMsg{asked, rec, err}
	}
}

// askRecent asks for the decisions that weights are tried on.
func (m *Model) askRecent() tea.Cmd {
	m.whatIf.asked++
	m.whatIf.waiting, m.whatIf.scroll = true, 0
	asked, ask := m.whatIf.asked, m.asks.recent
	return func() tea.Msg {
		records, err := ask(maxTried)
		return recentMsg{asked, records, err}
	}
}

// askTrial tries the weights on the decisions, away from the loop of the screen.
func (m *Model) askTrial() tea.Cmd {
	m.whatIf.asked++
	m.whatIf.waiting = true
	asked, records, knobs := m.whatIf.asked, m.whatIf.records, append([]knob(nil), m.whatIf.knobs...)
	return func() tea.Msg { return trialMsg{asked, try(records, knobs)} }
}
