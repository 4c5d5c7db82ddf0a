package cli

import "testing"

func TestPaint(t *testing.T) {
	const (
		plain  = "DOWN"
		bold   = "\x1b[1;7mDOWN\x1b[0m"
		colour = "\x1b[1;7;31mDOWN\x1b[0m"
	)
	tests := []struct {
		name string
		tty  bool
		mode ColorMode
		env  map[string]string
		want string
	}{
		{name: "pipe", want: plain},
		{name: "terminal", tty: true, want: colour},
		{name: "auto is the default", tty: true, mode: ColorAuto, want: colour},
		{name: "never", tty: true, mode: ColorNever, env: map[string]string{"CLICOLOR_FORCE": "1"}, want: plain},
		{name: "always, even piped", mode: ColorAlways, env: map[string]string{"NO_COLOR": "1"}, want: colour},
		{name: "NO_COLOR keeps bold and reverse", tty: true, env: map[string]string{"NO_COLOR": "1"}, want: bold},
		{name: "NO_COLOR on a pipe", env: map[string]string{"NO_COLOR": "1"}, want: plain},
		{name: "NO_COLOR beats CLICOLOR_FORCE", env: map[string]string{"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, want: plain},
		{name: "CLICOLOR_FORCE", env: map[string]string{"CLICOLOR_FORCE": "1"}, want: colour},
		{name: "CLICOLOR_FORCE=0", env: map[string]string{"CLICOLOR_FORCE": "0"}, want: plain},
		{name: "CLICOLOR=0", tty: true, env: map[string]string{"CLICOLOR": "0"}, want: bold},
		{name: "dumb terminal", tty: true, env: map[string]string{"TERM": "dumb"}, want: plain},
		{name: "dumb terminal with NO_COLOR", tty: true, env: map[string]string{"TERM": "dumb", "NO_COLOR": "1"}, want: plain},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, _, _ := Test()
			s.OutIsTerminal, s.ErrIsTerminal, s.Color = test.tty, test.tty, test.mode
			s.Env = func(name string) string { return test.env[name] }
			if got := s.Paint(Bad, plain); got != test.want {
				t.Errorf("Paint = %q, want %q", got, test.want)
			}
			if got := s.PaintErr(Bad, plain); got != test.want {
				t.Errorf("PaintErr = %q, want %q", got, test.want)
			}
			if got := s.Paint(Plain, plain); got != plain {
				t.Errorf("Paint(Plain) = %q", got)
			}
		})
	}
}

func TestPaintGoodHasNoAttribute(t *testing.T) {
	s := &Streams{OutIsTerminal: true, Env: func(name string) string {
		return map[string]string{"NO_COLOR": "1"}[name]
	}}
	if got := s.Paint(Good, "OK"); got != "OK" {
		t.Errorf("Paint(Good) without colour = %q, want OK", got)
	}
}

func TestParseColorMode(t *testing.T) {
	for text, want := range map[string]ColorMode{"": ColorAuto, "auto": ColorAuto, "always": ColorAlways, "never": ColorNever} {
		if got, err := ParseColorMode(text); got != want || err != nil {
			t.Errorf("ParseColorMode(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := ParseColorMode("on"); Status(err) != ExitUsage {
		t.Errorf("ParseColorMode(on): %v with status %d, want status 2", err, Status(err))
	}
}
