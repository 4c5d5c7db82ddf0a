package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/logkey"
)

// The times of an election, which are those of Kubernetes' own components.
const (
	// leaseDuration is how long a candidate sees a lease unchanged before it takes it.
	leaseDuration = 15 * time.Second
	// renewDeadline is how long a leader leads after the renewal that last succeeded
	// was sent. It ends before anybody can take the lease, whatever a leader waits for,
	// as long as no clock runs half as fast again as another.
	renewDeadline = 10 * time.Second
	// leaseRetry is the pause between two attempts; a candidate's is up to a fifth
	// longer, so that candidates do not come at once.
	leaseRetry = 2 * time.Second
	// leaseAttempt bounds one attempt.
	leaseAttempt = 5 * time.Second
)

// ElectionConfig says what is elected, and who this is.
type ElectionConfig struct {
	Namespace, Lease string
	// Name is this candidate's, as people know it: a pod's name. Its identity in the
	// lease has a random suffix, so that no two processes ever share one.
	Name   string
	Logger *slog.Logger
}

// Election elects one of several replicas by a Lease. The rules are client-go's: a
// lease is taken when it has no holder or has not changed for as long as it lasts, by
// the candidate's own clock; every write names the version that it replaces, so that
// of two only one succeeds; and who leads stops doing so before its lease is over.
type Election struct {
	cfg      ElectionConfig
	identity string
	leases   leases
	origin   time.Time
	until    atomic.Int64 // nanoseconds after origin up to which this one leads

	// What follows is Run's alone.
	seen    *coordinationv1.Lease // as it last was; nil = none is known
	changed time.Time             // when it was first seen so, by this process' clock
	report  func()                // a change
	told    standing
	failure string // that was last logged

	mu     sync.Mutex
	leader string // identity; "" = nobody that is known
}

// leases reads and writes one lease.
type leases interface {
	get(ctx context.Context) (*coordinationv1.Lease, error)
	create(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error)
	update(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error)
}

// NewElection makes a candidate. It asks nothing yet.
func (c *Cluster) NewElection(cfg ElectionConfig) (*Election, error) {
	client, err := c.client(coordinationv1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	return newElection(cfg, &leaseClient{client, cfg.Namespace, cfg.Lease}), nil
}

func newElection(cfg ElectionConfig, l leases) *Election {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Election{cfg: cfg, leases: l, identity: cfg.Name + "_" + uuid.NewString(), origin: clock.Wall{}.Now()}
}

// Leading reports whether this one leads at this moment. It looks at the clock alone,
// so that a process that was stopped for a while, or hangs in a request, knows at once.
func (e *Election) Leading() bool { return int64(clock.Wall{}.Now().Sub(e.origin)) < e.until.Load() }

// Leader is the name of who leads, as far as is known; "" = nobody.
func (e *Election) Leader() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leader == e.identity && !e.Leading() {
		return "" // its lease may yet stand, and it does not lead
	}
	return leaderName(e.leader)
}

// leaderName is an identity without its random suffix. Anybody who may write the lease
// may have put it there, so it is cut to the length of a pod's name, and has no control
// characters.
func leaderName(identity string) string {
	if at := strings.LastIndexByte(identity, '_'); at > 0 {
		identity = identity[:at]
	}
	printable := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}
	return strings.Map(printable, identity[:min(len(identity), maxLeader)])
}

// maxLeader bounds the name of a leader, in bytes.
const maxLeader = 253

// Run takes part until ctx ends. Then this one leads no longer, and a lease that it
// held has no holder, so that another can take it at once. changed is called after
// every change of [Election.Leading] and [Election.Leader]. What fails is logged and
// tried again; Run returns nil.
func (e *Election) Run(ctx context.Context, changed func()) error {
	e.report = changed
	defer e.release(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		if err := e.attempt(ctx); ctx.Err() == nil {
			e.complain(err)
			e.tell()
		}
		select {
		case <-ctx.Done():
		case <-time.After(e.pause()):
			e.tell() // its time may be over
		}
	}
	return nil
}

// attempt takes or renews the lease, within the time that a leader has left.
func (e *Election) attempt(ctx context.Context) error {
	limit := leaseAttempt
	if left := e.left(); left > 0 {
		limit = min(limit, left)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := e.try(ctx)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = nil // somebody else was faster: the next look tells who
		e.seen = nil
	}
	return err
}

// left is how long this one still leads; 0 when it does not.
func (e *Election) left() time.Duration {
	return max(0, time.Duration(e.until.Load())-clock.Wall{}.Now().Sub(e.origin))
}

// pause is the time until the next attempt: a retry's, but not beyond the moment at
// which this one leads no longer, or at which somebody else's lease is over.
func (e *Election) pause() time.Duration {
	if left := e.left(); left > 0 {
		return min(leaseRetry, left)
	}
	wait := leaseRetry + rand.N(leaseRetry/5)
	if over := e.changed.Add(lasts(e.seen)).Sub((clock.Wall{}).Now()); e.seen != nil && over > 0 {
		wait = min(wait, over)
	}
	return wait
}

// try takes or renews the lease once.
func (e *Election) try(ctx context.Context) error {
	if e.seen != nil && holderOf(e.seen) == e.identity {
		if err := e.write(ctx, e.seen); err == nil {
			return nil
		} // it may have changed: look
	}
	lease, err := e.leases.get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		e.until.Store(0) // others may be about to make it
		return e.write(ctx, nil)
	case err != nil:
		return err
	}
	e.observe(lease)
	if h := holderOf(lease); h != "" && h != e.identity && (clock.Wall{}).Now().Before(e.changed.Add(lasts(lease))) {
		return nil
	}
	return e.write(ctx, lease)
}

// observe notes a lease that was read. What counts as a change is what its holder
// writes.
func (e *Election) observe(lease *coordinationv1.Lease) {
	if e.seen == nil || !sameTerm(e.seen, lease) {
		e.changed = clock.Wall{}.Now()
	}
	e.seen = lease
	if holderOf(lease) != e.identity {
		e.until.Store(0)
	}
	e.follow(holderOf(lease))
}

func (e *Election) follow(leader string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leader = leader
}

// write takes or renews the lease in place of the given one; nil = there is none.
// This one leads from when that was sent.
func (e *Election) write(ctx context.Context, old *coordinationv1.Lease) error {
	sent := clock.Wall{}.Now()
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.cfg.Namespace, Name: e.cfg.Lease}}
	if old != nil {
		next = old.DeepCopy()
	}
	s := &next.Spec
	if old == nil || holderOf(old) != e.identity {
		s.AcquireTime = new(metav1.NewMicroTime(sent))
		s.LeaseTransitions = new(transitions(old))
	}
	s.HolderIdentity, s.RenewTime = new(e.identity), new(metav1.NewMicroTime(sent))
	s.LeaseDurationSeconds = new(int32(leaseDuration / time.Second))
	var err error
	if old == nil {
		next, err = e.leases.create(ctx, next)
	} else {
		next, err = e.leases.update(ctx, next)
	}
	if err != nil {
		return err
	}
	e.observe(next)
	e.until.Store(int64(sent.Add(renewDeadline).Sub(e.origin)))
	return nil
}

// release ends this one's term: it leads no longer, then the lease says so.
func (e *Election) release(ctx context.Context) {
	e.until.Store(0)
	ctx, cancel := context.WithTimeout(ctx, leaseAttempt)
	defer cancel()
	const tries = 3 // a renewal that was given up may yet have come through
	var err error
	for range tries {
		if err = e.clear(ctx); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		e.logger().Warn("the lease was not given back: another replica has to wait until it is over", slog.String(logkey.Error, leaseError(err).Error()))
	}
	e.tell()
}

// clear takes this one's name out of the lease, if it is there.
func (e *Election) clear(ctx context.Context) error {
	if e.seen == nil { // it never asked
		return nil
	}
	lease, err := e.leases.get(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || holderOf(lease) != e.identity {
		return err
	}
	next := lease.DeepCopy()
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = new(""), new(int32(1))
	next.Spec.RenewTime = new(metav1.NewMicroTime(clock.Wall{}.Now()))
	if _, err = e.leases.update(ctx, next); err == nil {
		e.follow("")
	}
	return err
}

// standing is what was last told.
type standing struct {
	leading bool
	leader  string
}

// tell logs a change, and calls who wants to know.
func (e *Election) tell() {
	was, now := e.told, standing{e.Leading(), e.Leader()}
	if now == was {
		return
	}
	e.told = now
	log := e.logger()
	switch {
	case now.leading && !was.leading:
		log.Info("this replica leads")
	case was.leading && !now.leading:
		log.Info("this replica leads no longer", slog.String(logkey.Leader, now.leader))
	case now.leader != was.leader:
		log.Info("standby", slog.String(logkey.Leader, now.leader))
	}
	e.report()
}

// complain logs a failure that is not the last one again.
func (e *Election) complain(err error) {
	text := ""
	if err != nil {
		text = leaseError(err).Error()
	}
	if text != "" && text != e.failure {
		e.logger().Warn("the lease can't be read or renewed", slog.String(logkey.Error, text))
	}
	e.failure = text
}

func (e *Election) logger() *slog.Logger {
	return e.cfg.Logger.With(slog.String(logkey.Lease, e.cfg.Namespace+"/"+e.cfg.Lease))
}

// leaseError says what to grant when the server refuses.
func leaseError(err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: a Role must grant get, create and update on leases of coordination.k8s.io", err)
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the API server does not answer")
	}
	return err
}

// holderOf is who holds the lease; "" = nobody.
func holderOf(l *coordinationv1.Lease) string { return deref(l.Spec.HolderIdentity) }

// lasts is how long the lease's holder may rely on it.
func lasts(l *coordinationv1.Lease) time.Duration {
	if l == nil || l.Spec.LeaseDurationSeconds == nil {
		return leaseDuration
	}
	return time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
}

// transitions is the number of the next holder's term. The API server takes no
// negative one.
func transitions(l *coordinationv1.Lease) int32 {
	if l == nil {
		return 0
	}
	return max(0, deref(l.Spec.LeaseTransitions)+1)
}

// sameTerm reports whether nobody has written the lease in between.
func sameTerm(a, b *coordinationv1.Lease) bool {
	return holderOf(a) == holderOf(b) && a.Spec.RenewTime.Equal(b.Spec.RenewTime) &&
		deref(a.Spec.LeaseTransitions) == deref(b.Spec.LeaseTransitions) && a.UID == b.UID
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
