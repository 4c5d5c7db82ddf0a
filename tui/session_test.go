package tui

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/eppctl/eppctl/explain"
)

// fakeSource plays a part of a picker: it sends what next says at each interval.
type fakeSource struct {
	next    func(at time.Time) Update
	records []*explain.Record

	mu    sync.Mutex
	asked []string // decisions
	gaps  []time.Duration
}

func (f *fakeSource) Follow(ctx context.Context, pace *Pace, send func(Update)) error {
	last := time.Now()
	for {
		send(f.next(time.Now()))
		select {
		case <-time.After(pace.Interval()):
		case <-pace.Changed():
		case <-ctx.Done():
			return ctx.Err()
		}
		f.mu.Lock()
		f.gaps = append(f.gaps, time.Since(last))
		f.mu.Unlock()
		last = time.Now()
	}
}

func (f *fakeSource) Decision(_ context.Context, id string) (*explain.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, id)
	for _, rec := range f.records {
		if strings.HasPrefix(rec.DecisionID, id) || strings.HasPrefix(rec.RequestID, id) {
			return rec, nil
		}
	}
	return nil, errors.New("no decision " + id)
}

func (f *fakeSource) Recent(context.Context, int) ([]*explain.Record, error) { return f.records, nil }

// healthy sends the hot fleet again and again, with the recorded decisions.
func healthy(t *testing.T) *fakeSource {
	f := &fakeSource{records: records(t)}
	var rows []explain.Row
	for i, rec := range f.records {
		row := explain.Summarize(rec)
		row.Picked = []string{"chat-2", "chat-0", "chat-1"}[i%3]
		rows = append(rows, row)
	}
	f.next = func(at time.Time) Update {
		s := hot()
		s.Time = at
		return Update{Snapshot: s, Rows: rows}
	}
	return f
}

// session is a dashboard that runs, with somebody at its keys.
type session struct {
	t    *testing.T
	keys io.Writer
	out  *buffer

	mu    sync.Mutex
	lines []string
	p     *tea.Program
	saved *explain.Snapshot
}

// buffer may be written and read at once.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// watched keeps what was drawn last.
type watched struct {
	*Model
	s *session
}

func (w watched) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	_, cmd := w.Model.Update(msg)
	return w, cmd
}

func (w watched) View() tea.View {
	v := w.Model.View()
	w.s.mu.Lock()
	w.s.lines = strings.Split(v.Content, "\n")
	w.s.mu.Unlock()
	return v
}

// sit runs a dashboard in virtual time and quits in the end.
func sit(t *testing.T, src Source, change func(*Options), do func(s *session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in, keys := io.Pipe()
		s := &session{t: t, keys: keys, out: new(buffer)}
		opt := Options{
			Width: 80, Height: 24, Interval: time.Second, Now: time.Now, Input: in, Output: s.out, Env: []string{"TERM=xterm-256color"},
			Command: func(id string) string { return "eppctl explain " + id },
			Save: func(snap *explain.Snapshot, records []*explain.Record) (string, error) {
				s.saved = snap
				return "report.jsonl", nil
			},
		}
		if change != nil {
			change(&opt)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			ended <- run(ctx, src, opt, func(m *Model) tea.Model { return watched{m, s} }, func(p *tea.Program) { s.p = p })
		}()
		time.Sleep(1500 * time.Millisecond)
		do(s)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		keys.Close()
		// Bubble Tea lets the last tick go on; it ends by itself.
		time.Sleep(2 * time.Second)
	})
}

// bytesOf are what a terminal sends for keys that are no letters.
var bytesOf = map[string]string{
	"enter": "\r", "esc": "\x1b", "tab": "\t", "shift-tab": "\x1b[Z", "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
	"home": "\x1b[H", "end": "\x1b[F", "pgup": "\x1b[5~", "pgdown": "\x1b[6~", "space": " ", "backspace": "\x7f", "delete": "\x1b[3~",
	"ctrl-a": "\x01", "ctrl-b": "\x02", "ctrl-c": "\x03", "ctrl-e": "\x05", "ctrl-f": "\x06", "ctrl-k": "\x0b", "ctrl-r": "\x12", "ctrl-s": "\x13",
	"ctrl-u": "\x15", "ctrl-w": "\x17", "ctrl-z": "\x1a",
}

// press types keys, of which the names stand between blanks: "/ hot enter" types
// '/', the letters of hot, and the enter key.
func (s *session) press(keys string) {
	s.t.Helper()
	for word := range strings.FieldsSeq(keys) {
		text, special := bytesOf[word]
		if !special {
			text = word
		}
		if _, err := io.WriteString(s.keys, text); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // virtual: an escape alone is told from a sequence
	}
	synctest.Wait()
}

func (s *session) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// sees checks that texts are on the screen, or with a ! before them are not.
func (s *session) sees(texts ...string) {
	s.t.Helper()
	screen := s.screen()
	for _, text := range texts {
		want, not := strings.CutPrefix(text, "!")
		if strings.Contains(screen, want) == not {
			s.t.Errorf("looking for %q on the screen:\n%s", text, screen)
		}
	}
}

// copied is what was put on the clipboard last.
func (s *session) copied() string {
	parts := strings.Split(s.out.String(), "\x1b]52;c;")
	text, _, _ := strings.Cut(parts[len(parts)-1], "\a")
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		s.t.Errorf("clipboard: %v", err)
	}
	return string(b)
}

// cursor is the name of the pod that the cursor is on.
func (s *session) cursor() string {
	for line := range strings.Lines(s.screen()) {
		if rest, ok := strings.CutPrefix(line, ">"); ok {
			name, _, _ := strings.Cut(rest, " ")
			return name
		}
	}
	return ""
}

// firstPods are the names in the first column of the pods table.
func (s *session) firstPods() (names []string) {
	for line := range strings.Lines(s.screen()) {
		if name, _, _ := strings.Cut(strings.TrimLeft(line, " >"), " "); strings.HasPrefix(name, "chat-") && !strings.Contains(line, "eppctl top") {
			names = append(names, name)
		}
	}
	return slices.Clip(names)
}
