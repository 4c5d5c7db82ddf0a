package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
)

// An idle dashboard asks at its interval and no more, for ten minutes.
func TestTenIdleMinutes(t *testing.T) {
	src := healthy(t)
	sit(t, src, nil, func(s *session) {
		time.Sleep(10 * time.Minute)
		src.mu.Lock()
		defer src.mu.Unlock()
		if n := len(src.gaps); n < 590 || n > 610 {
			t.Errorf("asked %d times in ten minutes", n)
		}
		if len(src.asked) > 0 {
			t.Errorf("asked for decisions that nobody wanted: %q", src.asked)
		}
		s.sees("● live 1s")
	})
}

// Figures that change do not move rows; with a column chosen they move once in two
// seconds at most, and the cursor stays on its pod.
func TestRowsStay(t *testing.T) {
	src := healthy(t)
	turn := 0
	src.next = func(time.Time) Update {
		snap := hot()
		turn++
		for i := range snap.Pods {
			snap.Pods[i].Queue.Waiting = new(float64((i*5 + turn*3) % 11))
		}
		return Update{Snapshot: snap}
	}
	sit(t, src, func(o *Options) { o.Interval = 250 * time.Millisecond }, func(s *session) {
		byName := s.firstPods()
		for range 40 {
			time.Sleep(250 * time.Millisecond)
			if got := s.firstPods(); !slices.Equal(got, byName) {
				t.Fatalf("rows moved by themselves: %q", got)
			}
		}
		s.press(": sort space queue enter j")
		on := s.cursor()
		moved, last, at := 0, s.firstPods(), time.Now()
		for range 80 {
			time.Sleep(125 * time.Millisecond)
			if got := s.firstPods(); !slices.Equal(got, last) {
				if gap := time.Since(at); moved > 0 && gap < 1900*time.Millisecond {
					t.Errorf("sorted again after %v", gap)
				}
				moved, last, at = moved+1, got, time.Now()
			}
			if s.cursor() != on {
				t.Fatalf("the cursor went from %s to %s", on, s.cursor())
			}
		}
		if moved < 2 || moved > 6 {
			t.Errorf("sorted again %d times in ten seconds", moved)
		}
	})
}

// While it is paused nothing changes; afterwards the newest is shown.
func TestPauseHolds(t *testing.T) {
	src := healthy(t)
	n := 0
	src.next = func(time.Time) Update {
		n++
		s := hot()
		s.Router.Pool = fmt.Sprintf("pool-%d", n)
		return Update{Snapshot: s}
	}
	sit(t, src, nil, func(s *session) {
		s.press("space")
		held := s.screen()[:30]
		time.Sleep(10500 * time.Millisecond)
		if got := s.screen()[:30]; got != held {
			t.Errorf("%q became %q", held, got)
		}
		s.sees("paused 10s")
		s.press("space")
		s.sees(fmt.Sprintf("pool-%d", n), "● live")
	})
}

// The router goes and comes back; the last figures stay.
func TestRouterGoesAndComesBack(t *testing.T) {
	src := healthy(t)
	began := time.Time{}
	good := src.next
	src.next = func(at time.Time) Update {
		if began.IsZero() {
			began = at
		}
		if gone := at.Sub(began); gone > 2500*time.Millisecond && gone < 12*time.Second {
			return Update{Err: errors.New("connection refused"), Retry: time.Second}
		}
		return good(at)
	}
	sit(t, src, nil, func(s *session) {
		s.sees("● live")
		time.Sleep(8 * time.Second)
		s.sees("▲ stale 7s", "▲ router unreachable for 6s", "(connection refused), retrying in 1s", "chat-7")
		s.press("j")
		s.on("chat-3")
		time.Sleep(4 * time.Second)
		s.sees("● live", "!unreachable", "chat-2 takes 31%")
	})
}

// A terminal may have any size at any moment.
func TestResizes(t *testing.T) {
	sit(t, healthy(t), nil, func(s *session) {
		for _, size := range [][2]int{{160, 50}, {20, 5}, {1, 1}, {40, 8}, {300, 100}, {80, 24}} {
			s.p.Send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			time.Sleep(time.Second)
			if n := len(strings.Split(s.screen(), "\n")); n != size[1] {
				t.Errorf("%d lines at %v", n, size)
			}
		}
		s.sees("chat-7")
	})
}

// On a large screen the newest decision is explained beside the feed, and stays until
// another is chosen.
func TestFullScreen(t *testing.T) {
	src := healthy(t)
	sit(t, src, func(o *Options) { o.Width, o.Height = 160, 50 }, func(s *session) {
		s.sees("WHY", "WHAT IF", "request nobody-le")
		time.Sleep(5 * time.Second)
		if len(src.asked) != 1 {
			t.Errorf("asked for %q", src.asked)
		}
		s.press("e")
		s.press("j j")
		s.sees("3-")
		s.press("tab right")
		s.sees("> cache        0.60    0.65", "would change")
		s.press("tab down")
		s.on("chat-3")
	})
}

// Nobody looks: it asks seldom, until somebody does.
func TestFocus(t *testing.T) {
	src := healthy(t)
	sit(t, src, nil, func(s *session) {
		s.p.Send(tea.BlurMsg{})
		time.Sleep(11 * time.Second)
		src.mu.Lock()
		last := src.gaps[len(src.gaps)-1]
		src.mu.Unlock()
		if last != 5*time.Second {
			t.Errorf("without focus it asked after %v", last)
		}
		s.p.Send(tea.FocusMsg{})
		time.Sleep(3 * time.Second)
		src.mu.Lock()
		defer src.mu.Unlock()
		if last := src.gaps[len(src.gaps)-1]; last != time.Second {
			t.Errorf("with focus it asked after %v", last)
		}
	})
}

func TestMouse(t *testing.T) {
	sit(t, healthy(t), func(o *Options) { o.Mouse = true }, func(s *session) {
		s.p.Send(tea.MouseClickMsg{X: 3, Y: 9, Button: tea.MouseLeft})
		time.Sleep(time.Second)
		s.on("chat-4")
		s.p.Send(tea.MouseWheelMsg{Button: tea.MouseWheelUp})
		time.Sleep(time.Second)
		s.on("chat-1")
		s.p.Send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
		s.p.Send(tea.MouseClickMsg{X: 3, Y: 18, Button: tea.MouseLeft})
		time.Sleep(time.Second)
		s.press("e")
		s.sees("WHY", "request: ")
		if !strings.Contains(s.out.String(), "\x1b[?1002h") {
			t.Error("the mouse was not asked for")
		}
	})
	sit(t, healthy(t), nil, func(s *session) {
		if strings.Contains(s.out.String(), "\x1b[?100") && strings.Contains(s.out.String(), "\x1b[?1002h") {
			t.Error("the mouse is taken although nobody asked")
		}
	})
}

// The decision to begin with is explained at once.
func TestBeginsWithAnExplanation(t *testing.T) {
	sit(t, healthy(t), func(o *Options) { o.Explain = "nobody-left" }, func(s *session) {
		s.sees("WHY", "request: nobody-left")
		s.press("esc")
		s.sees("chat-7")
	})
}

// A source that fails ends the dashboard with its error.
func TestSourceFails(t *testing.T) {
	err := Run(t.Context(), failing{}, Options{
		Width: 80, Height: 24, Interval: time.Second, Now: time.Now, Input: strings.NewReader(""), Output: new(buffer), Env: []string{"TERM=dumb"},
	})
	if err == nil || err.Error() != "the simulation ended" {
		t.Errorf("Run = %v", err)
	}
}

type failing struct{ Source }

func (failing) Follow(context.Context, *Pace, func(Update)) error {
	return errors.New("the simulation ended")
}

// player is a recording of a minute.
type player struct {
	*fakeSource
	at    time.Duration
	speed float64
	pace  *Pace
}

func (p *player) Follow(ctx context.Context, pace *Pace, send func(Update)) error {
	p.pace = pace
	return p.fakeSource.Follow(ctx, pace, send)
}

func (p *player) Step(frames int) {
	p.mu.Lock()
	p.at, p.speed = p.at+time.Duration(frames)*time.Second, 0
	p.mu.Unlock()
	p.pace.Hurry()
}

func (p *player) Play(speed float64) {
	p.mu.Lock()
	p.speed = speed
	p.mu.Unlock()
	p.pace.Hurry()
}

func TestReplay(t *testing.T) {
	p := &player{fakeSource: healthy(t), speed: 1}
	p.next = func(time.Time) Update {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.at += time.Duration(float64(time.Second) * p.speed)
		return Update{Snapshot: hot(), Play: &Playback{From: noon, Until: noon.Add(time.Minute), At: noon.Add(p.at), Speed: p.speed}}
	}
	sit(t, p, nil, func(s *session) {
		s.sees("x1")
		s.press("]")
		s.sees("x2")
		s.press("[ [")
		s.sees("x0.5")
		s.press("right")
		s.sees("‖ 14:23:")
		at := p.at
		s.press("left left")
		if p.at != at-2*time.Second {
			t.Errorf("two steps back went from %v to %v", at, p.at)
		}
		s.press("space")
		s.sees("x0.5")
		s.press("space")
		s.sees("‖ 14:23:")
	})
}

// A panic restores the terminal, and is an error.
func TestPanicRestoresTheTerminal(t *testing.T) {
	out := new(buffer)
	src := healthy(t)
	opt := Options{
		Width: 80, Height: 24, Interval: time.Second, Now: time.Now, Input: strings.NewReader(""), Output: out, Env: []string{"TERM=xterm-256color"},
	}
	err := run(t.Context(), src, opt, func(m *Model) tea.Model { return &breaking{Model: m, out: out} }, func(*tea.Program) {})
	if err == nil || !strings.Contains(err.Error(), "the dashboard broke") {
		t.Errorf("Run = %v", err)
	}
	if !strings.HasSuffix(strings.TrimRight(out.String(), "\r\n"), "l") && !strings.Contains(out.String(), "\x1b[?1049l") {
		t.Errorf("the screen is not restored: %q", out.String())
	}
}

// breaking panics once the first screen was drawn.
type breaking struct {
	*Model
	out *buffer
}

func (b *breaking) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if strings.Contains(b.out.String(), "\x1b[?1049h") {
		panic("for a test")
	}
	b.Model.Update(msg)
	return b, func() tea.Msg { time.Sleep(10 * time.Millisecond); return tickMsg{} }
}
