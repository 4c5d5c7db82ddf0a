package tui

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// keyTests press keys on a dashboard of eight pods, of which chat-2 is hot. Each key
// of the table is in one of them.
var keyTests = []struct {
	name, keys string
	sees       []string
	check      func(s *session)
}{
	{name: "filter", keys: "/ hot", sees: []string{" /hot", ">chat-2", "!chat-1 ", "1 of 8"}},
	{name: "filter keeps", keys: "/ hot enter", sees: []string{"!/hot", ">chat-2", "!chat-1 "}},
	{name: "filter cleared by esc", keys: "/ hot enter esc", sees: []string{"chat-1", "all 8"}},
	{name: "filter given up", keys: "/ hot esc", sees: []string{"chat-1", "all 8"}},
	{name: "filter without a match", keys: "/ nobody enter", sees: []string{"no pod matches nobody"}},
	{name: "filter edited", keys: "/ xx backspace left delete ctrl-a ctrl-e chat-5 ctrl-w down ctrl-u ctrl-k CHAT-7", sees: []string{"chat-7", "1 of 8"}},
	{name: "down", keys: "down", check: func(s *session) { s.on("chat-3") }},
	{name: "j", keys: "j j", check: func(s *session) { s.on("chat-4") }},
	{name: "up", keys: "up", check: func(s *session) { s.on("chat-1") }},
	{name: "k at the top", keys: "k k k k k k", check: func(s *session) { s.on("chat-0") }},
	{name: "g", keys: "G g", check: func(s *session) { s.on("chat-0") }},
	{name: "G", keys: "G", check: func(s *session) { s.on("chat-7") }},
	{name: "home", keys: "home", check: func(s *session) { s.on("chat-0") }},
	{name: "end", keys: "end", check: func(s *session) { s.on("chat-7") }},
	{name: "ctrl-f", keys: "g ctrl-f", check: func(s *session) { s.on("chat-7") }},
	{name: "ctrl-b", keys: "G ctrl-b", check: func(s *session) { s.on("chat-0") }},
	{name: "pages", keys: "g pgdown pgup", check: func(s *session) { s.on("chat-0") }},
	{name: "enter opens the pod", keys: "enter", sees: []string{"POD chat-2", "in flight", "5 by the picker, 9 by the engine (3 running)", "gaps 0, orphans 0"}},
	{name: "enter and esc", keys: "enter esc", sees: []string{"!POD chat-2", "chat-7"}},
	{name: "explain the pod of the verdict", keys: "e", sees: []string{"WHY", "request: "}},
	{name: "explain scrolls", keys: "e j j j", sees: []string{"4-21 of"}},
	{name: "explain another pod", keys: "G e", sees: []string{"e: no decision for chat-7 is known yet"}},
	{name: "explain a decision of the feed", keys: "tab j j enter", sees: []string{"WHY", "request: "}},
	{name: "the feed's cursor", keys: "tab j j", sees: []string{">"}},
	{name: "tab and back", keys: "tab shift-tab down", check: func(s *session) { s.on("chat-3") }},
	{name: "what-if", keys: "w", sees: []string{"WHAT IF", "0 would change (0%) of 17 recorded picks"}},
	{name: "what-if more", keys: "w j j right right right right right right right right", sees: []string{"queue        0.10    0.50", "recorded picks"}},
	{name: "what-if less", keys: "w left left left left left left left left left left left left", sees: []string{"cache        0.60    0.00", "would change"}},
	{name: "what-if plus and minus", keys: "w + + -", sees: []string{"cache        0.60    0.65"}},
	{name: "what-if back to now", keys: "w right 0", sees: []string{"cache        0.60    0.60", "0 would change"}},
	{name: "what-if of the queue's limit", keys: "w G right", sees: []string{"maxQueue       20      21"}},
	{name: "copy the config line", keys: "w right y", check: func(s *session) {
		s.copies("weights: {cache: 0.65, load: 0.1749, queue: 0.0875, health: 0.0438, adapter: 0.0438}")
	}},
	{name: "copy a pod", keys: "y", check: func(s *session) { s.copies("chat-2") }},
	{name: "copy a request", keys: "tab y", check: func(s *session) { s.copies("nobody-left") }},
	{name: "copy the command", keys: "e y", check: func(s *session) { s.copies("eppctl explain nobody-left") }},
	{name: "verdict", keys: "G v", sees: []string{"WHY", "request: "}},
	{name: "adapters", keys: "l", sees: []string{"ADAPTERS", "de                           8"}},
	{name: "index", keys: "i", sees: []string{"INDEX", "8 of 8 connected, 412/s"}},
	{name: "the same key closes", keys: "i i", sees: []string{"!INDEX", "all 8"}},
	{name: "open panes in turn", keys: "i tab", sees: []string{"POD chat-2"}},
	{name: "zoom", keys: "f", sees: []string{"chat-7", "!TIME     REQUEST"}},
	{name: "zoom and back", keys: "f f", sees: []string{"TIME     REQUEST"}},
	{name: "zoom the feed", keys: "tab f", sees: []string{"TIME     REQUEST", "!HEALTH"}},
	{name: "history", keys: "m", sees: []string{"chat-2"}},
	{name: "sort", keys: "s", sees: []string{"STATE↓", "sorted by STATE"}, check: func(s *session) { s.first("chat-5", "chat-2") }},
	{name: "sort twice", keys: "s s", sees: []string{"PICKS↓"}, check: func(s *session) { s.first("chat-2", "chat-0") }},
	{name: "sort back", keys: "s s S", sees: []string{"STATE↓"}},
	{name: "sort reversed", keys: "s s r", sees: []string{"PICKS↑"}, check: func(s *session) { s.first("chat-5") }},
	{name: "reversed by name", keys: "r", check: func(s *session) { s.first("chat-7", "chat-6") }},
	{name: "pause", keys: "space", sees: []string{"‖ paused 0s"}},
	{name: "pause and go on", keys: "space space", sees: []string{"● live 1s"}},
	{name: "windows", keys: "1", sees: []string{"last 5s"}},
	{name: "window 3", keys: "3", sees: []string{"last 5m"}},
	{name: "window 2", keys: "3 2", sees: []string{"last 60s"}},
	{name: "more often", keys: "+", sees: []string{"asks every 500ms", "live 500ms"}},
	{name: "more often, without shift", keys: "=", sees: []string{"live 500ms"}},
	{name: "less often", keys: "-", sees: []string{"live 2s"}},
	{name: "ask now", keys: "ctrl-r", sees: []string{"live 1s"}},
	{name: "help", keys: "?", sees: []string{"HELP", "all that is known of the pod"}},
	{name: "help to its end", keys: "? G", sees: []string{"orphan"}},
	{name: "help closed by itself", keys: "? ?", sees: []string{"!HELP", "all 8"}},
	{name: "report", keys: "ctrl-s", sees: []string{"saved to report.jsonl"}, check: func(s *session) {
		if s.saved == nil || len(s.saved.Pods) != 8 {
			s.t.Errorf("saved %v", s.saved)
		}
	}},
	{name: "a step without a recording", keys: "right", sees: []string{"only a recording can be stepped through"}},
	{name: "a step back without one", keys: "left", sees: []string{"only a recording"}},
	{name: "speed without one", keys: "]", sees: []string{"only a recording"}},
	{name: "speed down without one", keys: "[", sees: []string{"only a recording"}},
	{name: "a key of another pane", keys: "0", sees: []string{"0 works in another pane"}},
	{name: "no key", keys: "x", sees: []string{"no key x; ? lists them"}},
	{name: "goto", keys: ": goto space nobody enter", sees: []string{"WHY", "request: nobody-left"}},
	{name: "goto nothing", keys: ": goto space zz enter", sees: []string{"no decision zz"}},
	{name: "goto without an ID", keys: ": goto enter", sees: []string{"goto needs ID"}},
	{name: "pod by name", keys: ": pod space t-6 enter", check: func(s *session) { s.on("chat-6") }},
	{name: "no such pod", keys: ": pod space zz enter", sees: []string{"no pod zz is shown"}},
	{name: "interval", keys: ": interval space 5s enter", sees: []string{"live 5s"}},
	{name: "a wrong interval", keys: ": interval space 5 enter", sees: []string{"interval: 5 is none; it is from 100ms to 1m0s"}},
	{name: "window by command", keys: ": window space 5m enter", sees: []string{"last 5m"}},
	{name: "a wrong window", keys: ": window space 7s enter", sees: []string{"window: there are 5s, 60s and 5m"}},
	{name: "sort by command", keys: ": sort space queue enter", sees: []string{"QUEUE↓"}},
	{name: "a wrong column", keys: ": sort space zz enter", sees: []string{"sort: no column zz; there are POD, STATE"}},
	{name: "filter by command", keys: ": filter space hot enter", sees: []string{"1 of 8"}},
	{name: "save by command", keys: ": save enter", sees: []string{"saved to report.jsonl"}},
	{name: "help by command", keys: ": help enter", sees: []string{"HELP"}},
	{name: "no command", keys: ": fly enter", sees: []string{"no command fly: there are goto, pod"}},
	{name: "an empty command", keys: ": enter", sees: []string{"all 8"}},
	{name: "a command given up", keys: ": go esc", sees: []string{"/ filter"}},
}

func TestKeys(t *testing.T) {
	for _, c := range keyTests {
		t.Run(c.name, func(t *testing.T) {
			sit(t, healthy(t), nil, func(s *session) {
				s.press(c.keys)
				s.sees(c.sees...)
				if c.check != nil {
					c.check(s)
				}
			})
		})
	}
}

// Each key that the table of keys has is pressed by a test.
func TestEveryKeyIsTested(t *testing.T) {
	pressed := map[string]bool{"q": true, "ctrl-c": true, "ctrl-z": true} // they end or stop the program: tests of their own
	for _, c := range keyTests {
		for word := range strings.FieldsSeq(c.keys) {
			pressed[word] = true
		}
	}
	for _, a := range actions() {
		for _, k := range a.Keys() {
			if name := strings.ReplaceAll(k, "+", "-"); k != "+" && !pressed[name] || k == "+" && !pressed["+"] {
				t.Errorf("no test presses %s (%s)", k, a.Help().Desc)
			}
		}
	}
}

// on checks where the cursor is.
func (s *session) on(pod string) {
	s.t.Helper()
	if got := s.cursor(); got != pod {
		s.t.Errorf("the cursor is on %q, want %q:\n%s", got, pod, s.screen())
	}
}

// first checks the first rows.
func (s *session) first(pods ...string) {
	s.t.Helper()
	if got := s.firstPods(); len(got) < len(pods) || !slices.Equal(got[:len(pods)], pods) {
		s.t.Errorf("the first pods are %q, want %q:\n%s", got, pods, s.screen())
	}
}

func (s *session) copies(want string) {
	s.t.Helper()
	time.Sleep(200 * time.Millisecond) // virtual, for the frame
	if got := s.copied(); got != want {
		s.t.Errorf("copied %q, want %q", got, want)
	}
}

func TestQuit(t *testing.T) {
	for _, key := range []string{"q", "ctrl-c", ": quit enter", "/ ctrl-c", "e q", "? q"} {
		t.Run(key, func(t *testing.T) {
			sit(t, healthy(t), nil, func(s *session) {
				s.press(key)
				time.Sleep(time.Second)
				if out := s.out.String(); !strings.Contains(out, "\x1b[?1049l") {
					t.Error("the screen is not restored")
				}
			})
		})
	}
}
