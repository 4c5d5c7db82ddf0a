package clock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestScaledRunsFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewScaled(20)
		from, wall := c.Now(), time.Now()
		if err := c.Sleep(t.Context(), 2*time.Second); err != nil {
			t.Fatal(err)
		}
		if got := c.Now().Sub(from); got != 2*time.Second {
			t.Errorf("2 s on the scaled clock took %v of its own time", got)
		}
		if got := time.Since(wall); got != 100*time.Millisecond {
			t.Errorf("2 s at speed 20 took %v of wall time, want 100ms", got)
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("shutting down")
		for _, c := range []Clock{Wall{}, NewScaled(5)} {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			if err := c.Sleep(ctx, time.Hour); !errors.Is(err, cause) {
				t.Errorf("%T.Sleep with an ended context = %v, want its cause", c, err)
			}
		}
	})
}
