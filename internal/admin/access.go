package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/shell"
)

// Access tells who may use the API where it can be reached from elsewhere.
type Access interface {
	// Access reports whose the bearer token is, "" when nobody knows it, and whether he
	// may do verb ("get", "put") at the path. An error means that this can't be told.
	Access(ctx context.Context, token, verb, path string) (user string, allowed bool, err error)
}

// verb is a request's as rules for paths name it.
func verb(r *http.Request) string {
	if r.Method == http.MethodHead {
		return "get"
	}
	return strings.ToLower(r.Method)
}

// authorize checks the token of a request, if that is asked for.
func (s *server) authorize(w http.ResponseWriter, r *http.Request) error {
	if s.Access == nil {
		return nil
	}
	token := bearer(r)
	user, allowed, err := s.Access.Access(r.Context(), token, verb(r), r.URL.Path)
	switch {
	case err != nil: // logged by who knows the reason
		return fail(http.StatusServiceUnavailable, CodeAccessUnknown, "the picker can't ask the cluster's API server who you are").hint("its log says why; try again")
	case user == "":
		w.Header().Set("WWW-Authenticate", "Bearer")
		message := "a bearer token is needed"
		if token != "" {
			message = "the cluster does not know the token, or it has expired"
		}
		return fail(http.StatusUnauthorized, CodeUnauthorized, message).hint("give --admin-token-file FILE, for example with that of 'kubectl create token SERVICEACCOUNT > FILE'")
	case !allowed:
		return fail(http.StatusForbidden, CodeForbidden, quoted(user)+" may not "+verb(r)+" "+quoted(r.URL.Path)).
			hint(grant(verb(r), user))
	}
	return nil
}

// bearer is the token that a request shows.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") { // in any case, see RFC 9110 §11.1
		return ""
	}
	return token
}

const (
	// reviewEvery is how often it is asked again whether an open stream may go on.
	reviewEvery = 2 * time.Minute
	// maxUnreviewed is how long it goes on when that can't be told.
	maxUnreviewed = 10 * time.Minute
)

// reviewed is the request's context, which ends when its caller may not read any more;
// the cause then says why. end has to be called.
func (s *server) reviewed(r *http.Request) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	if s.Access == nil {
		return ctx, func() { cancel(nil) }
	}
	var reviewing sync.WaitGroup
	reviewing.Go(func() { cancel(s.review(ctx, r)) })
	return ctx, func() {
		cancel(nil)
		reviewing.Wait()
	}
}

// review returns why the caller may not go on, or nil at the end of ctx.
func (s *server) review(ctx context.Context, r *http.Request) error {
	last := clock.Wall{}.Now()
	for (clock.Wall{}).Sleep(ctx, reviewEvery) == nil {
		user, allowed, err := s.Access.Access(ctx, bearer(r), verb(r), r.URL.Path)
		switch now := (clock.Wall{}).Now(); {
		case ctx.Err() != nil:
		case err == nil && user == "":
			return errors.New("the cluster does not know the token any more")
		case err == nil && !allowed:
			return errors.New("the token may not read this any more")
		case err == nil:
			last = now
		case now.Sub(last) >= maxUnreviewed:
			return errors.New("the picker can't ask the cluster's API server whether the token still counts")
		}
	}
	return nil
}

// grant says how a user may be allowed a verb.
func grant(verb, user string) string {
	role := "eppctl-reader"
	if verb != "get" {
		role = "eppctl-writer"
	}
	return "allow it: kubectl create clusterrole " + role + " --verb=" + verb + " --non-resource-url='/v1/*'\n" +
		"and: kubectl create clusterrolebinding " + role + " --clusterrole=" + role + " --user=" + shell.Quote(user)
}
