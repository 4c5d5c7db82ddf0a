package kube

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/eppctl/eppctl/internal/logkey"
)

const (
	// reviewAge is how long the API server's word counts, also when it can't be asked
	// any more.
	reviewAge = 10 * time.Second
	// reviewTime bounds one question, and reviewsAtOnce how many are open: who has no
	// right must not be able to keep the API server busy.
	reviewTime    = 5 * time.Second
	reviewsAtOnce = 8
	maxReviews    = 1024
	maxToken      = 16 << 10 // bytes
)

// Reviewer tells who may do what: it asks the API server whose token it is
// (TokenReview) and what that one may do (SubjectAccessReview), and remembers the
// answers for a short time by the token's hash.
type Reviewer struct {
	identify func(ctx context.Context, token string) (*authenticationv1.UserInfo, error) // nil, nil: nobody's
	permit   func(ctx context.Context, u *authenticationv1.UserInfo, verb, path string) (bool, error)
	log      *slog.Logger
	slots    chan struct{}

	users   *memory[tokenHash, *authenticationv1.UserInfo]
	permits *memory[permitKey, bool]
	mu      sync.Mutex
	problem string // that was last logged
}

type tokenHash [sha256.Size]byte

type permitKey struct {
	token      tokenHash
	verb, path string
}

// NewReviewer makes one. It asks nothing yet.
func (c *Cluster) NewReviewer(log *slog.Logger) (*Reviewer, error) {
	authn, err := c.client(authenticationv1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	authz, err := c.client(authorizationv1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	r := newReviewer(log)
	r.identify, r.permit = identifyBy(authn), permitBy(authz)
	return r, nil
}

func newReviewer(log *slog.Logger) *Reviewer {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Reviewer{
		log: log, slots: make(chan struct{}, reviewsAtOnce),
		users:   newMemory[tokenHash, *authenticationv1.UserInfo](maxReviews, reviewAge),
		permits: newMemory[permitKey, bool](maxReviews, reviewAge),
	}
}

// identifyBy asks whose token it is. What the review says of the token stays out of
// errors.
func identifyBy(client *rest.RESTClient) func(context.Context, string) (*authenticationv1.UserInfo, error) {
	return func(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
		out := &authenticationv1.TokenReview{}
		ask := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		if err := client.Post().Resource("tokenreviews").Body(ask).Do(ctx).Into(out); err != nil {
			return nil, reviewError(err, "tokenreviews.authentication.k8s.io")
		}
		if !out.Status.Authenticated || out.Status.User.Username == "" {
			return nil, nil
		}
		return &out.Status.User, nil
	}
}

func permitBy(client *rest.RESTClient) func(context.Context, *authenticationv1.UserInfo, string, string) (bool, error) {
	return func(ctx context.Context, u *authenticationv1.UserInfo, verb, path string) (bool, error) {
		out := &authorizationv1.SubjectAccessReview{}
		ask := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: u.Username, UID: u.UID, Groups: u.Groups, Extra: make(map[string]authorizationv1.ExtraValue, len(u.Extra)),
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
		}}
		for k, v := range u.Extra {
			ask.Spec.Extra[k] = authorizationv1.ExtraValue(v)
		}
		if err := client.Post().Resource("subjectaccessreviews").Body(ask).Do(ctx).Into(out); err != nil {
			return false, reviewError(err, "subjectaccessreviews.authorization.k8s.io")
		}
		return out.Status.Allowed && !out.Status.Denied, nil
	}
}

// reviewError says what to grant when the server refuses the picker itself.
func reviewError(err error, resource string) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: a ClusterRole must grant create on %s, see 'eppctl manifests --admin-auth'", err, resource)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the API server does not answer")
	}
	return err
}

// Access reports who shows the token, and whether he may do verb at a path that is no
// resource of Kubernetes'; user is "" when the API server does not know the token. An
// error means that the API server can't be asked.
func (r *Reviewer) Access(ctx context.Context, token, verb, path string) (user string, allowed bool, err error) {
	if token == "" || len(token) > maxToken {
		return "", false, nil
	}
	caller := ctx
	defer func() {
		if caller.Err() == nil { // one that has gone says nothing of the API server
			r.complain(err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	hash := tokenHash(sha256.Sum256([]byte(token)))
	who, err := remembered(ctx, r, r.users, hash, func() (*authenticationv1.UserInfo, error) { return r.identify(ctx, token) })
	if who == nil || err != nil {
		return "", false, err
	}
	allowed, err = remembered(ctx, r, r.permits, permitKey{hash, verb, path}, func() (bool, error) { return r.permit(ctx, who, verb, path) })
	return who.Username, allowed, err
}

// remembered is what is remembered, else what the API server says.
func remembered[K comparable, V any](ctx context.Context, r *Reviewer, of *memory[K, V], key K, ask func() (V, error)) (v V, err error) {
	if v, ok := of.get(key); ok {
		return v, nil
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return v, errors.New("too many questions are open")
	}
	if v, ok := of.get(key); ok { // somebody asked meanwhile
		return v, nil
	}
	if v, err = ask(); err == nil {
		of.put(key, v)
	}
	return v, err
}

// complain logs a problem that is not the last one again.
func (r *Reviewer) complain(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	r.mu.Lock()
	news := text != r.problem
	r.problem = text
	r.mu.Unlock()
	if news && text != "" {
		r.log.Warn("the API server does not tell who may use the admin API", slog.String(logkey.Error, text))
	}
}
