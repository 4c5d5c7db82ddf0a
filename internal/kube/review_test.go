package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// authority is an API server that knows one token.
type authority struct {
	identified, permitted atomic.Int64
	away                  error
	revoked               bool
	hold                  chan struct{} // what it answers after; nil: at once
}

func (a *authority) reviewer(log *bytes.Buffer) *Reviewer {
	r := newReviewer(slog.New(slog.NewTextHandler(log, nil)))
	r.identify = func(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
		a.identified.Add(1)
		if a.hold != nil {
			select {
			case <-a.hold:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if a.away != nil || token != "good" || a.revoked {
			return nil, a.away
		}
		return &authenticationv1.UserInfo{Username: "ada"}, nil
	}
	r.permit = func(_ context.Context, u *authenticationv1.UserInfo, verb, path string) (bool, error) {
		a.permitted.Add(1)
		return u.Username == "ada" && verb == "get" && strings.HasPrefix(path, "/v1/"), a.away
	}
	return r
}

func TestAccess(t *testing.T) {
	type answer struct {
		user    string
		allowed bool
		err     bool
	}
	tests := []struct {
		name, token, verb, path string
		away                    error
		want                    answer
	}{
		{name: "may", token: "good", verb: "get", path: "/v1/pods", want: answer{"ada", true, false}},
		{name: "may not", token: "good", verb: "put", path: "/v1/pods", want: answer{"ada", false, false}},
		{name: "nobody", token: "bad", verb: "get", path: "/v1/pods"},
		{name: "no token", verb: "get", path: "/v1/pods"},
		{name: "a token that is too long", token: strings.Repeat("x", maxToken+1), verb: "get", path: "/v1/pods"},
		{name: "nobody to ask", token: "good", verb: "get", path: "/v1/pods", away: errors.New("away"), want: answer{err: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			a := &authority{away: tt.away}
			r := a.reviewer(&log)
			for range 3 {
				user, allowed, err := r.Access(context.Background(), tt.token, tt.verb, tt.path)
				if (answer{user, allowed, err != nil}) != tt.want {
					t.Errorf("%q, %v, %v", user, allowed, err)
				}
			}
			if i, p := a.identified.Load(), a.permitted.Load(); tt.away == nil && (i > 1 || p > 1) {
				t.Errorf("asked %d and %d times", i, p)
			}
			if tt.token != "" && strings.Contains(log.String(), tt.token) {
				t.Errorf("the log: %s", log.String())
			}
		})
	}
}

func TestAccessIsRememberedForAShortTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := &authority{}
		r := a.reviewer(&log)
		ask := func(when, want string) {
			t.Helper()
			user, allowed, err := r.Access(context.Background(), "good", "get", "/v1/pods")
			if got := fmt.Sprint(user, " ", allowed, " ", err); got != want {
				t.Errorf("%s: %s", when, got)
			}
		}
		ask("first", "ada true <nil>")
		a.away = errors.New("away")
		time.Sleep(reviewAge - time.Nanosecond)
		ask("with the API server away", "ada true <nil>")
		time.Sleep(time.Nanosecond)
		ask("later", " false away")
		ask("again", " false away")
		if n := strings.Count(log.String(), "away"); n != 1 {
			t.Errorf("said %d times: %s", n, log.String())
		}
		a.away, a.revoked = nil, true
		ask("when it is revoked", " false <nil>")
	})
}

func TestOnlySoManyReviewsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := &authority{hold: make(chan struct{})}
		r := a.reviewer(&log)
		failed := make(chan error, 100)
		for i := range 100 {
			go func() {
				_, _, err := r.Access(context.Background(), fmt.Sprint("bad", i), "get", "/")
				failed <- err
			}()
		}
		synctest.Wait()
		if n := a.identified.Load(); n != reviewsAtOnce {
			t.Errorf("%d questions are open", n)
		}
		time.Sleep(reviewTime)
		for range 100 {
			if <-failed == nil {
				t.Error("an answer that nobody gave")
			}
		}
	})
}

// A caller who goes does not make the API server look as if it failed.
func TestCallersWhoGoAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := (&authority{hold: make(chan struct{})}).reviewer(&log)
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, _, err := r.Access(ctx, "good", "get", "/"); err == nil || log.Len() > 0 {
			t.Errorf("error %v, log %q", err, log.String())
		}
		if _, _, err := r.Access(t.Context(), "good", "get", "/"); err == nil || log.Len() == 0 {
			t.Errorf("of a server that does not answer: error %v, log %q", err, log.String())
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	m := newMemory[int, int](3, time.Hour)
	for i := range 3 {
		m.put(i, i)
	}
	m.get(0)
	m.put(3, 3)
	m.put(3, 4)
	for key, want := range map[int]bool{0: true, 1: false, 2: true, 3: true} {
		if v, ok := m.get(key); ok != want || ok && key == 3 && v != 4 {
			t.Errorf("%d: %v %v", key, v, ok)
		}
	}
	if len(m.items) != 3 || m.order.Len() != 3 {
		t.Errorf("%d and %d", len(m.items), m.order.Len())
	}
}
