package load

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// leaps is a clock that nobody has to wait for: sleeping moves it on.
type leaps struct {
	mu  sync.Mutex
	now time.Time
}

func (c *leaps) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *leaps) Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(max(d, 0))
	return nil
}

func (c *leaps) Scale() float64 { return 1 }
