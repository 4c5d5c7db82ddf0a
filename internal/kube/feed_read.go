package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/eppctl/eppctl/internal/clock"
)

// errBrief is what there is to say of a server that opens watches and ends them.
var errBrief = errors.New("each watch ends at once: what answers is no API server, or has none behind it")

// errCut is what client-go keeps to itself: it takes a connection that ended, or timed
// out, for a watch without events.
var errCut = errors.New("the API server cannot be reached: the connection ended, or timed out, before it answered")

// toldError is a failure that was noted already.
type toldError struct{ error }

// Unwrap returns the cause.
func (e *toldError) Unwrap() error { return e.error }

// observed is the list and watch of which success and failure are noted.
func (f *feed[T]) observed(raw *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) { return f.list(ctx, raw) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return f.watch(ctx, raw, o)
		},
	}
}

// list reads all objects as they are now, a page at a time.
func (f *feed[T]) list(ctx context.Context, raw *cache.ListWatch) (runtime.Object, error) {
	all, next := &internalversion.List{}, ""
	for range maxPages {
		page, err := f.page(ctx, raw, next)
		if err != nil {
			return nil, err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return nil, fmt.Errorf("the API server answered with a %T in place of a list of %s", page, f.kind())
		}
		if err := meta.EachListItemWithAlloc(page, func(o runtime.Object) error { return f.gather(all, o) }); err != nil {
			return nil, err
		}
		if next = about.GetContinue(); next != "" {
			continue
		}
		if all.ResourceVersion = about.GetResourceVersion(); !isVersion(all.ResourceVersion) {
			return nil, fmt.Errorf("the list of %s has no resourceVersion", f)
		}
		return all, nil
	}
	return nil, fmt.Errorf("the list of %s has no end after %d pages", f, maxPages)
}

func (f *feed[T]) page(ctx context.Context, raw *cache.ListWatch, next string) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return raw.ListWithContext(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
}

// gather adds an object of a page, made small.
func (f *feed[T]) gather(all *internalversion.List, o runtime.Object) error {
	if len(all.Items) >= maxObjects {
		return f.tooMany()
	}
	if f.trim != nil {
		if small, err := f.trim(o); err == nil {
			o, _ = small.(runtime.Object)
		}
	}
	all.Items = append(all.Items, o)
	return nil
}

func (f *feed[T]) tooMany() error {
	return fmt.Errorf("there are more than %d %s: none of them is read; narrow the selector of the pool, or give it a namespace of its own", maxObjects, f)
}

// watch opens a watch. One that has to begin with all objects begins with those of now:
// what was read last may be of a state that the cluster was taken back from.
func (f *feed[T]) watch(ctx context.Context, raw *cache.ListWatch, o metav1.ListOptions) (watch.Interface, error) {
	initial := o.SendInitialEvents != nil
	if f.watchEnded() { // and client-go opens another at once
		f.tellFlaps(ctx)
		pause := min(firstDelay<<min(f.flaps.Load(), 8), lastDelay)
		_ = clock.Wall{}.Sleep(ctx, pause/2+rand.N(pause/2)) // ctx is looked at next
	}
	switch {
	case initial:
		o.ResourceVersion = ""
	case !isVersion(o.ResourceVersion): // it would not tell what is gone
		return nil, errors.New("there is no version to go on from")
	case f.readSince() >= readAnew:
		return nil, &toldError{errors.New("all is read anew")}
	}
	w, err := raw.WatchWithContext(ctx, o)
	if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) {
		err = errCut
	}
	switch {
	case err == nil:
		return f.checked(ctx, w, o), nil
	case initial:
		// A server that can't stream lists is asked for a list next, and so is one
		// that can't be reached: for the reflector would wait for it deaf to ctx.
		return nil, errors.New(err.Error())
	}
	f.failed(ctx, "watch", err)
	if !apierrors.IsTooManyRequests(err) {
		err = errors.New(err.Error()) // all is read anew then, and not gone on with
	}
	return nil, &toldError{err}
}

// readAnew is when a watch that has ended is not gone on with: then all is read, lest
// something that was missed stays so. A cluster that was taken back to an older state
// tells nothing to watches of versions that it has not reached again.
const readAnew = 30 * time.Minute

// readSince is how long ago all was read.
func (f *feed[T]) readSince() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return clock.Wall{}.Now().Sub(f.readAt)
}

// watchEnded notes that the last watch has ended, and reports whether it was not
// steady, or was ended for what it told.
func (f *feed[T]) watchEnded() (flap bool) {
	if f.opened == nil {
		return false
	}
	brief := f.opened.end()
	f.opened = nil
	if flap = brief || f.faulty.Load(); flap {
		f.flaps.Add(1)
	}
	return flap
}

// tellFlaps says that no watch lasts, unless what is wrong with them was said. Twice
// may have been bad luck.
func (f *feed[T]) tellFlaps(ctx context.Context) {
	if f.flaps.Load() > 2 && !f.faulty.Load() {
		f.failed(ctx, "watch", errBrief)
	}
}

// probation is the time in which a watch is not steady yet.
type probation struct {
	mu    sync.Mutex
	timer *time.Timer // after which it is steady
	ended bool
}

// restart has it last so long from now, unless it was ended: the last of what a watch
// told may be looked at when nobody reads it any more.
func (p *probation) restart(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.timer.Reset(d)
	}
}

// end ends it, and reports whether the watch was not steady.
func (p *probation) end() (brief bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	return p.timer.Stop()
}

// checkedWatch is a watch of which what is wrong is noted, and ends it.
type checkedWatch[T any] struct {
	watch.Interface
	feed   *feed[T]
	opened *probation
	after  time.Duration // how long it is not steady, from when it has told what was there before
	stream stream        // for pass alone
	out    chan watch.Event
	done   chan struct{}
	stop   sync.Once
}

// checked begins a watch's check. It is steady some time after it has told what was
// there before.
func (f *feed[T]) checked(ctx context.Context, w watch.Interface, o metav1.ListOptions) watch.Interface {
	f.faulty.Store(false)
	c := &checkedWatch[T]{Interface: w, feed: f, out: make(chan watch.Event), done: make(chan struct{})}
	c.stream.initial = o.SendInitialEvents != nil
	c.stream.last, _ = strconv.ParseUint(o.ResourceVersion, 10, 64) // 0 for what is no number
	c.after = min(steady<<min(f.flaps.Load(), 8), lastSteady)
	first := c.after
	if c.stream.initial {
		first = readAnew
	}
	c.opened = &probation{timer: time.AfterFunc(first, f.isSteady)}
	f.opened = c.opened
	go c.pass(ctx)
	return c
}

// isSteady notes that a watch is steady, unless it was ended for what it told.
func (f *feed[T]) isSteady() {
	if !f.faulty.Load() {
		f.flaps.Store(0)
		f.trouble.over(f.String())
	}
}

// errHalf is a server that begins to tell what is there, and does not go on.
var errHalf = fmt.Errorf("the API server has told of a part of the objects, and of nothing for %s", silentFor)

// pass passes events on, looked at, until the watch ends, which its Stop makes it. While
// what was there before is told, nothing for a while is an event too.
func (c *checkedWatch[T]) pass(ctx context.Context) {
	defer close(c.out)
	patience := time.NewTimer(silentFor)
	defer patience.Stop()
	for {
		if !c.stream.initial {
			patience.Stop()
		}
		var e watch.Event
		var ok bool
		select {
		case e, ok = <-c.Interface.ResultChan():
			if !ok {
				return
			}
			e = c.look(ctx, e)
			patience.Reset(silentFor)
		case <-patience.C:
			e = c.fault(ctx, errHalf)
		}
		select {
		case c.out <- e:
		case <-c.done:
			return
		}
	}
}

// look is the event that is passed on for one that came.
func (c *checkedWatch[T]) look(ctx context.Context, e watch.Event) watch.Event {
	before := c.stream.initial
	err := c.stream.check(e)
	switch {
	case err == nil && c.stream.initial && c.stream.count > maxObjects:
		err = c.feed.tooMany()
	case err == nil && before && !c.stream.initial:
		c.opened.restart(c.after)
	}
	if err != nil {
		return c.fault(ctx, err)
	}
	return e
}

// fault notes what is wrong with the watch, and is the event that ends it.
func (c *checkedWatch[T]) fault(ctx context.Context, err error) watch.Event {
	c.feed.faulty.Store(true)
	c.feed.failed(ctx, "watch", err)
	return faultyEvent(err)
}

// ResultChan implements [watch.Interface].
func (c *checkedWatch[T]) ResultChan() <-chan watch.Event { return c.out }

// Stop implements [watch.Interface].
func (c *checkedWatch[T]) Stop() {
	c.stop.Do(func() { close(c.done) })
	c.Interface.Stop()
}

// faultyEvent ends a watch. That its version has expired means something to the
// reflector, and nothing else that a server may say.
func faultyEvent(err error) watch.Event {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		status.Code, status.Reason = http.StatusGone, metav1.StatusReasonExpired
	}
	return watch.Event{Type: watch.Error, Object: &status}
}

// stream is what is known of a watch.
type stream struct {
	initial bool   // objects that were there before are told of, in no order
	count   int    // of them
	last    uint64 // version of the last event; 0 = there was none, or it has no order
}

// check says what is wrong with the next event. Versions of an API server are numbers
// that grow; where they are no numbers nothing is said of their order.
func (s *stream) check(e watch.Event) error {
	switch e.Type {
	case watch.Error:
		return apierrors.FromObject(e.Object)
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
	default:
		return fmt.Errorf("the watch told of an event %q, which there is not", cutTo(50, string(e.Type)))
	}
	about, err := meta.Accessor(e.Object)
	if err != nil {
		return fmt.Errorf("the watch told of a %T, which is no object", e.Object)
	}
	version := about.GetResourceVersion()
	if !isVersion(version) {
		return fmt.Errorf("the watch told of a %T without resourceVersion", e.Object)
	}
	if e.Type != watch.Bookmark && about.GetName() == "" {
		return fmt.Errorf("the watch told of a %T without a name", e.Object)
	}
	s.count++
	now, err := strconv.ParseUint(version, 10, 64)
	if s.initial {
		s.initial = e.Type != watch.Bookmark || about.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true"
		if s.initial {
			return nil
		}
	} else if err == nil && now < s.last {
		return fmt.Errorf("the watch went back from version %d to %d: all is read anew", s.last, now)
	}
	s.last = now
	return nil
}

// isVersion reports whether a watch can go on from a version.
func isVersion(text string) bool { return text != "" && text != "0" }
