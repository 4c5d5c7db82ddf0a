package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/request"
)

const timeout = 150 * time.Millisecond

// inBubble runs a test where time stands still while anybody works.
func inBubble(t *testing.T, cfg Config, test func(t *testing.T, tk *Tokeniser)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tk, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer tk.Close()
		test(t, tk)
	})
}

// took is how long a request waits for its ids.
func (t *Tokeniser) took(tb testing.TB, q *Query) (Prompts, time.Duration) {
	tb.Helper()
	began := time.Now()
	got := t.mustFind(tb, q)
	return got, time.Since(began)
}

func TestEqualPromptsAtOneTimeShareACall(t *testing.T) {
	e := &engine{delay: 100 * time.Millisecond}
	inBubble(t, Config{Transport: e, Servers: one}, func(t *testing.T, tk *Tokeniser) {
		var crowd sync.WaitGroup
		for range 50 {
			crowd.Go(func() {
				if got, took := tk.took(t, text(t, "one two")); got.From != FromEngine || took != 100*time.Millisecond {
					t.Errorf("ids from %s after %v", got.From, took)
				}
			})
		}
		crowd.Wait()
		if n := len(e.calls()); n != 1 || tk.Stats().Coalesced != 49 {
			t.Errorf("%d calls, %d waited for another's", n, tk.Stats().Coalesced)
		}
	})
}

// Each waits for its own timeout, and one that comes late does not wait for a call
// that has lasted too long already.
func TestEachHasItsOwnDeadline(t *testing.T) {
	e := &engine{delay: 200 * time.Millisecond}
	inBubble(t, Config{Transport: e, Servers: one}, func(t *testing.T, tk *Tokeniser) {
		var crowd sync.WaitGroup
		for i, want := range []struct {
			after, takes time.Duration
			from         string
		}{
			{0, timeout, request.FromText},                               // in vain
			{100 * time.Millisecond, 100 * time.Millisecond, FromEngine}, // the same call
			{149 * time.Millisecond, 51 * time.Millisecond, FromEngine},  // the same call
			{160 * time.Millisecond, timeout, request.FromText},          // a new one
			{201 * time.Millisecond, 0, FromEngine},                      // has it from the cache
		} {
			crowd.Go(func() {
				time.Sleep(want.after)
				if got, took := tk.took(t, text(t, "one two")); got.From != want.from || took != want.takes {
					t.Errorf("request %d: ids from %s after %v, want %s after %v", i, got.From, took, want.from, want.takes)
				}
			})
		}
		crowd.Wait()
	})
}

// A client that hangs up waits no longer, and when nobody waits the call ends. It
// says nothing of the server.
func TestHangingUpCancelsTheCall(t *testing.T) {
	var ended time.Time
	e := &engine{answer: func(req *http.Request, _ []byte) (*http.Response, error) {
		<-req.Context().Done()
		ended = time.Now()
		return nil, req.Context().Err()
	}}
	inBubble(t, Config{Transport: e, Servers: one}, func(t *testing.T, tk *Tokeniser) {
		began := time.Now()
		var crowd sync.WaitGroup
		for i := range 10 {
			crowd.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*10*time.Millisecond)
				defer cancel()
				if got := tk.Tokens(ctx, text(t, "one two")); got.From != request.FromText || time.Since(began) != time.Duration(i+1)*10*time.Millisecond {
					t.Errorf("ids from %s after %v", got.From, time.Since(began))
				}
			})
		}
		crowd.Wait()
		synctest.Wait()
		if ended.Sub(began) != 100*time.Millisecond {
			t.Errorf("the call ended after %v", ended.Sub(began))
		}
		s := tk.Stats()
		if s.CallsNow != 0 || s.OpenServers != 0 || s.WaitedInVain != 0 || s.Calls["timeout"] != 0 || len(tk.flights) != 0 {
			t.Errorf("stats %+v, %d flights", s, len(tk.flights))
		}
	})
}

// Long prompts that take too long say nothing of the server: short ones are still
// asked for, and others as long are not for a while.
func TestLongPrompts(t *testing.T) {
	e := &engine{}
	e.answer = func(req *http.Request, body []byte) (*http.Response, error) {
		if len(body) > 200<<10 {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		return respond(req, http.StatusOK, tokenized(words(body, false))), nil
	}
	inBubble(t, Config{Transport: e, Servers: one}, func(t *testing.T, tk *Tokeniser) {
		long := func(i int) *Query { return text(t, fmt.Sprint(i)+strings.Repeat(" long", 50_000)) }
		waited := 0
		for i := range 100 {
			if _, took := tk.took(t, long(i)); took > 0 {
				waited++
			}
			if got, took := tk.took(t, text(t, fmt.Sprint("short ", i))); got.From != FromEngine || took != 0 {
				t.Fatalf("short prompt %d: ids from %s after %v", i, got.From, took)
			}
		}
		if waited != 1 {
			t.Errorf("%d long prompts waited in vain", waited)
		}
		time.Sleep(longPause)
		if _, took := tk.took(t, long(100)); took != timeout {
			t.Errorf("after the pause it took %v", took)
		}
	})
}

// An answer that never ends is given up like one that never begins.
func TestAnswersThatDoNotEnd(t *testing.T) {
	e := &engine{answer: func(req *http.Request, _ []byte) (*http.Response, error) {
		res := respond(req, http.StatusOK, "")
		res.Body = &trickle{req.Context()}
		return res, nil
	}}
	inBubble(t, Config{Transport: e, Servers: one}, func(t *testing.T, tk *Tokeniser) {
		if got, took := tk.took(t, text(t, "one two")); got.From != request.FromText || took != timeout {
			t.Errorf("ids from %s after %v", got.From, took)
		}
	})
}

var _ io.ReadCloser = (*trickle)(nil)

// Calls are bounded; one too many is not waited for.
func TestCallsAreBounded(t *testing.T) {
	e := &engine{delay: 100 * time.Millisecond}
	inBubble(t, Config{Transport: e, Servers: several(3), MaxCalls: 4}, func(t *testing.T, tk *Tokeniser) {
		var crowd sync.WaitGroup
		var mu sync.Mutex
		atOnce, later := 0, 0
		for i := range 20 {
			crowd.Go(func() {
				_, took := tk.took(t, text(t, fmt.Sprint("prompt ", i)))
				mu.Lock()
				defer mu.Unlock()
				if took == 0 {
					atOnce++
				}
				if took == 100*time.Millisecond {
					later++
				}
			})
		}
		crowd.Wait()
		if atOnce != 16 || later != 4 || tk.Stats().Busy != 16 {
			t.Errorf("%d had their ids at once, %d later; stats %+v", atOnce, later, tk.Stats())
		}
	})
}

// Close ends what is under way, and nothing is begun after it.
func TestClose(t *testing.T) {
	e := &engine{delay: time.Hour}
	synctest.Test(t, func(t *testing.T) {
		tk, err := New(Config{Transport: e, Servers: one, Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if got, took := tk.took(t, text(t, "one")); got.From != request.FromText || took != 0 {
				t.Errorf("ids from %s after %v", got.From, took)
			}
		})
		synctest.Wait()
		tk.Close()
		waiting.Wait()
		if got := tk.mustFind(t, text(t, "two")); got.From != request.FromText || len(e.calls()) != 1 {
			t.Errorf("after the end: ids from %s, %d calls", got.From, len(e.calls()))
		}
	})
}

func TestBreaker(t *testing.T) {
	now := time.Now()
	var b breaker
	step := func(what string, ok bool) {
		t.Helper()
		if !ok {
			t.Fatalf("%s: %+v", what, b)
		}
	}
	step("one failure", !b.failed(now, 2) && b.closed())
	step("a success between", !b.succeeded() && b.failures == 0)
	step("two in a row", !b.failed(now, 2) && b.failed(now, 2) && !b.closed())
	step("not due yet", !b.due(now.Add(leastPause-1)))
	step("failures of older calls", !b.failed(now.Add(time.Millisecond), 2) && b.pause == leastPause)
	now = now.Add(leastPause)
	step("due", b.due(now))
	b.probing = true
	step("one probe at a time", !b.due(now))
	step("the probe fails", !b.failed(now, 2) && b.pause == 2*leastPause)
	for range 10 {
		now = now.Add(b.pause)
		b.probing = true
		b.failed(now, 2)
	}
	step("pauses are bounded", b.pause == mostPause)
	step("the probe succeeds", b.succeeded() && b.closed() && b.pause == 0)
}

// Many at once, over everything there is; for the race detector.
func TestTokensAreSafeForConcurrentUse(t *testing.T) {
	e := &engine{answer: func(req *http.Request, body []byte) (*http.Response, error) {
		if len(body)%7 == 0 {
			return nil, errors.New("no")
		}
		return respond(req, http.StatusOK, tokenized(words(body, false))), nil
	}}
	tk := newTokeniser(t, Config{Transport: e, Servers: several(4), CacheBytes: 32 << 10, MaxCalls: 8})
	shared := strings.Repeat("a line of words\n", 600)
	var crowd sync.WaitGroup
	for i := range 16 {
		crowd.Go(func() {
			for j := range 60 {
				ctx, cancel := context.WithCancel(context.Background())
				if (i+j)%5 == 0 {
					cancel()
				}
				tk.Tokens(ctx, text(t, shared+fmt.Sprint("end ", j%20)))
				tk.Tokens(ctx, chat(t, nil, "hello", fmt.Sprint(j%10), "more"))
				tk.Told("m", FromEngine, 1, 1+j/50)
				tk.Stats()
				cancel()
			}
		})
	}
	crowd.Wait()
}
