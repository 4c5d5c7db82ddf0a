package tokens

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A slow server costs a few requests their 150 ms. Then nobody waits, not even
// for the probe that finds out that it is fast again.
func TestASlowServerIsLeftAlone(t *testing.T) {
	e := &engine{delay: time.Second}
	inBubble(t, Config{Transport: e, Servers: one}, func(t *testing.T, tk *Tokeniser) {
		waited, requests := 0, 0
		ask := func() (Prompts, time.Duration) {
			requests++
			return tk.took(t, text(t, fmt.Sprint("prompt ", requests)))
		}
		for range 600 { // a minute
			if _, took := ask(); took > 0 {
				waited++
				if took != timeout {
					t.Fatalf("waited %v", took)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if waited != mostFailures {
			t.Errorf("%d requests waited in vain, want %d", waited, mostFailures)
		}
		if n := len(e.calls()); n < 6 || n > 10 { // 2, and probes after 1, 2, 4, 8, 16 s …
			t.Errorf("%d calls in a minute", n)
		}
		if s := tk.Stats(); s.OpenServers != 1 {
			t.Errorf("stats %+v", s)
		}

		e.set(func() { e.delay = 0 })
		recovered := time.Now()
		for {
			got, took := ask()
			if took > 0 {
				t.Fatalf("waited %v for a probe", took)
			}
			if got.From == FromEngine {
				break
			}
			if time.Since(recovered) > mostPause {
				t.Fatal("it is not asked again")
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if s := tk.Stats(); s.Open || s.OpenServers != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// With many slow servers not each of them costs somebody the timeout.
func TestAllServersSlow(t *testing.T) {
	e := &engine{delay: time.Second}
	inBubble(t, Config{Transport: e, Servers: several(100)}, func(t *testing.T, tk *Tokeniser) {
		waited := 0
		for i := range 1000 {
			if _, took := tk.took(t, text(t, fmt.Sprint("prompt ", i))); took > 0 {
				waited++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if waited != mostFailuresAll || !tk.Stats().Open {
			t.Errorf("%d requests waited in vain, want %d", waited, mostFailuresAll)
		}
		e.set(func() { e.delay = 0 })
		time.Sleep(mostPause)
		tk.mustFind(t, text(t, "a probe"))
		synctest.Wait()
		if got, took := tk.took(t, text(t, "and then")); got.From != FromEngine || took != 0 || tk.Stats().Open {
			t.Errorf("ids from %s after %v", got.From, took)
		}
	})
}

// That nobody answers for one model keeps nobody from asking for another.
func TestOneModelSlow(t *testing.T) {
	e := &engine{}
	e.answer = func(req *http.Request, body []byte) (*http.Response, error) {
		if strings.HasPrefix(req.URL.Host, "slow") {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		return respond(req, http.StatusOK, tokenized(words(body, false))), nil
	}
	servers := func(base string) []Server {
		list := several(10)("")
		for i := range list {
			list[i].ID, list[i].URL = base+list[i].ID, fmt.Sprintf("http://%s-%d", base, i)
		}
		return list
	}
	of := func(base string, i int) *Query {
		q := text(t, fmt.Sprint("prompt ", i))
		q.Base = base
		return q
	}
	inBubble(t, Config{Transport: e, Servers: servers}, func(t *testing.T, tk *Tokeniser) {
		for i := range 100 {
			tk.mustFind(t, of("slow", i))
		}
		if !tk.Stats().Open {
			t.Error("nobody is said to be left alone")
		}
		for i := range 10 {
			if got, took := tk.took(t, of("quick", i)); got.From != FromEngine || took != 0 {
				t.Fatalf("ids from %s after %v", got.From, took)
			}
		}
		if _, took := tk.took(t, of("slow", 100)); took != 0 || !tk.Stats().Open {
			t.Errorf("the slow model is waited for again, %v", took)
		}
	})
}

// One slow server among good ones costs two requests their wait, and is probed
// beside them.
func TestOneSlowServerAmongMany(t *testing.T) {
	e := &engine{}
	slow := true
	e.answer = func(req *http.Request, body []byte) (*http.Response, error) {
		if req.URL.Host == "pod-1" && slow {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		return respond(req, http.StatusOK, tokenized(words(body, false))), nil
	}
	inBubble(t, Config{Transport: e, Servers: several(3)}, func(t *testing.T, tk *Tokeniser) {
		waited := 0
		for i := range 300 {
			if got, took := tk.took(t, text(t, fmt.Sprint("prompt ", i))); took > 0 {
				waited++
			} else if got.From != FromEngine {
				t.Fatalf("prompt %d: ids from %s at once", i, got.From)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if s := tk.Stats(); waited != mostFailures || s.Open || s.OpenServers != 1 {
			t.Errorf("%d waited in vain, stats %+v", waited, s)
		}
		slow = false
		time.Sleep(mostPause)
		tk.mustFind(t, text(t, "a probe goes out beside this"))
		synctest.Wait()
		if s := tk.Stats(); s.OpenServers != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}
