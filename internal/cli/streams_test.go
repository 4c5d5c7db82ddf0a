package cli

import (
	"testing"
	"time"
)

func TestSystemHonoursForceTTY(t *testing.T) {
	tests := []struct {
		name, spec    string
		width, height int
	}{
		{"size", "120x40", 120, 40},
		{"width alone", "120", 120, 24},
		{"on", "1", 80, 24},
		{"nonsense is the default size", "-5xhuge", 80, 24},
		{"beyond any terminal", "99999999x2", 80, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(ForceTTYEnv, test.spec)
			s := System()
			if !s.OutIsTerminal || !s.ErrIsTerminal || s.Width != test.width || s.Height != test.height {
				t.Errorf("%s=%s: terminal %t, %dx%d, want %dx%d",
					ForceTTYEnv, test.spec, s.OutIsTerminal, s.Width, s.Height, test.width, test.height)
			}
		})
	}
}

func TestSystemIsComplete(t *testing.T) {
	t.Setenv(ForceTTYEnv, "0")
	s := System()
	if s.In == nil || s.Out == nil || s.Err == nil || s.Env == nil || s.Now().IsZero() {
		t.Errorf("System() = %+v: something is missing", s)
	}
	if s.OutIsTerminal && (s.Width <= 0 || s.Height <= 0) {
		t.Errorf("a terminal of %dx%d", s.Width, s.Height)
	}
}

func TestTime(t *testing.T) {
	s, _, _ := Test()
	at := s.Now().Add(-12 * time.Second)
	tests := []struct {
		name string
		tty  bool
		at   time.Time
		want string
	}{
		{"pipe", false, at, "2026-01-02T15:03:53.000Z"},
		{"pipe, another zone", false, at.In(time.FixedZone("", 3600)), "2026-01-02T15:03:53.000Z"},
		{"terminal", true, at, "12s ago"},
		{"terminal, clock ahead of ours", true, s.Now().Add(3 * time.Minute), "in 3m"},
		{"never", false, time.Time{}, Unknown},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s.OutIsTerminal = test.tty
			if got := s.Time(test.at); got != test.want {
				t.Errorf("Time = %q, want %q", got, test.want)
			}
		})
	}
}

func TestAge(t *testing.T) {
	tests := []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{99 * time.Millisecond, "0s"},
		{400 * time.Millisecond, "0.4s"},
		{3 * time.Second, "3s"},
		{9990 * time.Millisecond, "9.9s"},
		{42 * time.Second, "42s"},
		{119 * time.Second, "119s"},
		{7 * time.Minute, "7m"},
		{26 * time.Hour, "26h"},
		{300 * time.Hour, "12d"},
		{-3 * time.Second, "-3s"},
	}
	for _, test := range tests {
		if got := Age(test.d); got != test.want {
			t.Errorf("Age(%v) = %q, want %q", test.d, got, test.want)
		}
	}
}
