package health

import (
	"testing"
	"time"
)

// TestCheck drives a check by a fake clock: each step is a letter a second,
// s for success, f for a failure, r for a refusal, h for a hindrance, . for
// nothing. After it the check stands as said.
func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name, steps string
		want        Standing
	}{
		{"not tried", "...", Standing{}},
		{"well", "s", Standing{Known: true}},
		{"two failures before any success", "ff", Standing{}},
		{"three", "fff", Standing{Known: true, Failed: true, Misses: 3, Reason: "f"}},
		{"a success after two", "ffs", Standing{Known: true}},
		{"two failures", "ssff", Standing{Known: true, Misses: 2, Reason: "f"}},
		{"a success in between", "sffsff", Standing{Known: true, Misses: 2, Reason: "f"}},
		{"well again after two", "sffs", Standing{Known: true}},
		{"three fail", "sfff", Standing{Known: true, Failed: true, Misses: 3, Reason: "f"}},
		{"one refusal fails", "sr", Standing{Known: true, Failed: true, Misses: 1, Reason: "r"}},
		{"one success begins the recovery", "sfffs", Standing{Known: true, Recovered: 30, Reason: "f"}},
		{"2 s later", "sfffs..", Standing{Known: true, Recovered: 40, Reason: "f"}},
		{"successes do not hasten it", "sfffsss", Standing{Known: true, Recovered: 40, Reason: "f"}},
		{"13 s later", "rs.............", Standing{Known: true, Recovered: 90, Reason: "r"}},
		{"14 s later", "rs..............", Standing{Known: true}},
		{"a failure throws it back", "rs.......f", Standing{Known: true, Recovered: 30, Misses: 1, Reason: "f"}},
		{"and then it begins anew", "rs.......fs..", Standing{Known: true, Recovered: 40, Reason: "f"}},
		{"a refusal ends it", "rs.......r", Standing{Known: true, Failed: true, Misses: 1, Reason: "r"}},
		{"three failures end it", "rs.......fff", Standing{Known: true, Failed: true, Misses: 3, Reason: "f"}},
		{"a failure when it is over", "rs..............f", Standing{Known: true, Misses: 1, Reason: "f"}},
		{"flapping of a well one never fails", "sfsfsfsfsfsfsfsfsfs", Standing{Known: true}},
		{"flapping of a failed one stays at the start", "rsfsfsfsfsfsfsfsfsfsfs", Standing{Known: true, Recovered: 30, Reason: "f"}},
		{"hindrances never fail it", "shhhhhhh", Standing{Known: true, Misses: 2, Reason: "h"}},
		{"hindrances and a failure do", "shhf", Standing{Known: true, Failed: true, Misses: 3, Reason: "f"}},
		{"a hindrance is no recovery", "fffh", Standing{Known: true, Failed: true, Misses: 4, Reason: "h"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c Check
			now := 42 * time.Hour
			for i := range test.steps {
				now += time.Second
				play(&c, test.steps[i], now)
			}
			if got := c.Standing(now); got != test.want {
				t.Errorf("after %q it stands at %+v, want %+v", test.steps, got, test.want)
			}
		})
	}
}

func play(c *Check, step byte, at time.Duration) {
	switch step {
	case 's':
		c.Succeed(at)
	case 'f':
		c.Fail(at, "f")
	case 'r':
		c.Break(at, "r")
	case 'h':
		c.Hinder(at, "h")
	}
}

// The way back: 0.3 at once, then 0.1 every 2 s, well after 14 s.
func TestRecoveryIsGradual(t *testing.T) {
	if Recovery != 14*time.Second {
		t.Errorf("Recovery = %v, want 14 s", Recovery)
	}
	var c Check
	c.Break(0, "connection refused")
	if got := Assess(&Signals{Probe: c.Standing(5 * time.Second)}).Score; got != 0 {
		t.Errorf("failed: score %v, want 0", got)
	}
	c.Succeed(10 * time.Second)
	for i, want := range []float64{.3, .4, .5, .6, .7, .8, .9, 1, 1} {
		now := 10*time.Second + time.Duration(i)*2*time.Second
		if got := Assess(&Signals{Probe: c.Standing(now)}).Score; got != want {
			t.Errorf("%v after the first success: score %v, want %v", now-10*time.Second, got, want)
		}
	}
}

func TestCounter(t *testing.T) {
	var c Counter
	expect := func(name string, at time.Duration, want Number) {
		t.Helper()
		if got := c.New(at); got != want {
			t.Errorf("%s: %+v new, want %+v", name, got, want)
		}
	}
	expect("not read", 0, Number{})
	c.Read(7, 0)
	expect("what was there before", 0, Of(0))
	c.Read(7, time.Minute)
	c.Read(9, 2*time.Minute)
	expect("two more", 2*time.Minute, Of(2))
	c.Read(10, 9*time.Minute)
	expect("and one", 9*time.Minute, Of(3))
	expect("all within the window", 12*time.Minute, Of(3))
	expect("the first two are old", 16*time.Minute, Of(1))
	expect("all are old", 20*time.Minute, Of(0))
	c.Read(12, 40*time.Hour)
	expect("after a long silence", 40*time.Hour, Of(2))
	c.Read(1, 40*time.Hour+time.Minute)
	expect("reset, and one since", 40*time.Hour+time.Minute, Of(1))
}
