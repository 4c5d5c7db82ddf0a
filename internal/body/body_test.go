package body

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestBudget(t *testing.T) {
	b := NewBudget(100)
	for _, step := range []struct {
		name       string
		take, give int64
		want       bool
		used       int64
	}{
		{name: "some", take: 60, want: true, used: 60},
		{name: "more than is left", take: 41, want: false, used: 60},
		{name: "all that is left", take: 40, want: true, used: 100},
		{name: "nothing", take: 0, want: true, used: 100},
		{name: "after giving back", give: 60, take: 60, want: true, used: 100},
	} {
		b.Give(step.give)
		if got := b.Take(step.take); got != step.want || b.Used() != step.used {
			t.Errorf("%s: %v with %d used, want %v with %d", step.name, got, b.Used(), step.want, step.used)
		}
	}
}

func TestBudgetOfMany(t *testing.T) {
	b := NewBudget(3)
	var wg sync.WaitGroup
	var held, refused atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if !b.Take(1) {
					refused.Add(1)
					continue
				}
				if n := held.Add(1); n > 3 {
					t.Errorf("%d are held, want 3 at most", n)
				}
				held.Add(-1)
				b.Give(1)
			}
		})
	}
	wg.Wait()
	if n := b.Used(); n != 0 {
		t.Errorf("%d used at the end, want 0 (%d were refused)", n, refused.Load())
	}
}
