package source

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/internal/admin"
)

// grace is how long the other pickers have once one has answered: a replica that
// hangs must not hold up the answer of those that don't.
const grace = 10 * time.Second

// together are calls of several pickers at once. When one has answered, those that
// have not begun to are given up after a grace.
type together struct {
	ctx   []context.Context //nolint:containedctx // one for each call, for as long as it lasts
	end   []context.CancelCauseFunc
	begun []atomic.Bool

	of    *Pickers
	first sync.Once
	timer atomic.Pointer[time.Timer]
}

// together begins one call for each picker. stop must be called when they have ended.
func (p *Pickers) together(ctx context.Context) *together {
	t := &together{of: p, begun: make([]atomic.Bool, len(p.clients))}
	for range p.clients {
		one, end := context.WithCancelCause(ctx)
		t.ctx, t.end = append(t.ctx, one), append(t.end, end)
	}
	return t
}

// answered notes that the i-th picker answers.
func (t *together) answered(i int) {
	t.begun[i].Store(true)
	t.first.Do(func() { t.timer.Store(time.AfterFunc(grace, t.giveUp)) })
}

func (t *together) giveUp() {
	for i, end := range t.end {
		if !t.begun[i].Load() {
			end(&admin.UnreachableError{Server: t.of.clients[i].Server(), Err: errors.New("no answer in " + grace.String() + ", while another answered")})
		}
	}
}

func (t *together) stop() {
	if timer := t.timer.Load(); timer != nil {
		timer.Stop()
	}
	for _, end := range t.end {
		end(nil)
	}
}
