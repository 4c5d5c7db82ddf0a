package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/source"
)

const (
	// lookAgain is how often replicas that came since are looked for.
	lookAgain = 5 * time.Second
	// maxShown bounds the decisions that are remembered not to show them twice.
	maxShown = 100_000
)

// logSource are the decisions in the logs of a picker's pods, of one that tells them
// there alone.
type logSource struct {
	*source.Files // of what is logged until now
	replicas      *replicas
	opts          source.Options
	logs          []io.Closer
}

// openLogs reads the logs of all replicas. Those that can't be read are warned of
// while others can.
func (r *replicas) openLogs(ctx context.Context, opts source.Options) (*logSource, error) {
	l := &logSource{replicas: r, opts: opts}
	var texts []source.Text
	var names []string
	var failed []error
	for _, pod := range slices.Backward(r.picker.Pods) { // the best is the newest, probably
		log, err := r.log(ctx, pod, kube.LogOptions{})
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if pod.Restarted {
			if before, err := r.log(ctx, pod, kube.LogOptions{Previous: true}); err == nil { // it may be gone
				texts, l.logs = append(texts, source.Text{Name: "log of " + pod.Name + " before its restart", In: before}), append(l.logs, before)
			}
		}
		texts, l.logs = append(texts, source.Text{Name: "log of " + pod.Name, In: log}), append(l.logs, log)
		names = append(names, pod.Name)
	}
	if len(names) == 0 {
		return nil, stepError(failed[0])
	}
	for _, err := range failed {
		opts.Warn(err.Error())
	}
	opts.Twice = true
	l.Files = source.FromTexts("log of "+strings.Join(names, ", "), texts, opts)
	return l, nil
}

func (r *replicas) log(ctx context.Context, pod kube.PickerPod, opts kube.LogOptions) (io.ReadCloser, error) {
	return r.cluster.Log(ctx, r.pool.Namespace, pod.Name, pod.Container, opts)
}

func (l *logSource) close() {
	for _, log := range l.logs {
		_ = log.Close() // it was only read
	}
}

// follow visits decisions as they are logged, also by replicas that come later: at
// first the last few, want.Limit, and then what is new.
func (l *logSource) follow(ctx context.Context, want source.Want, visit func([]*explain.Record) error) error {
	shown := map[string]bool{}
	first, err := l.newest(ctx, want, shown)
	if err != nil {
		return err
	}
	if err := visit(first); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	tails := tails{source: l, want: want, fresh: make(chan *explain.Record), ended: make(chan string), following: map[string]bool{}}
	defer tails.wait()
	defer cancel()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for tails.start(ctx); ; {
		select {
		case rec := <-tails.fresh:
			if shown[rec.DecisionID] {
				continue
			}
			if len(shown) >= maxShown {
				clear(shown)
			}
			shown[rec.DecisionID] = true
			if err := visit([]*explain.Record{rec}); err != nil {
				return err
			}
		case pod := <-tails.ended:
			delete(tails.following, pod)
		case <-tick.C:
			tails.look(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// newest are the last decisions of what is logged until now, oldest first; all are
// marked as shown. That the log has none yet is no error here.
func (l *logSource) newest(ctx context.Context, want source.Want, shown map[string]bool) ([]*explain.Record, error) {
	limit := want.Limit
	want.Limit = 0
	var list []*explain.Record
	_, err := l.Each(ctx, want, func(rec *explain.Record) error {
		if shown[rec.DecisionID] = true; len(list) < limit {
			list = append(list, rec)
		}
		return nil
	})
	if level, ok := errors.AsType[*source.LevelError](err); ok {
		return nil, level
	}
	slices.Reverse(list)
	return list, err
}

// tails are the logs that are followed.
type tails struct {
	source    *logSource
	want      source.Want
	fresh     chan *explain.Record
	ended     chan string // pods
	following map[string]bool
	begun     bool // the first of them are
}

// start follows the replicas that are not followed yet.
func (t *tails) start(ctx context.Context) {
	for _, pod := range t.source.replicas.picker.Running() {
		if t.following[pod.Name] {
			continue
		}
		if t.following[pod.Name] = true; t.begun {
			t.source.opts.Warn("the log of " + pod.Name + " is followed from now on")
		}
		go t.one(ctx, pod)
	}
	t.begun = true
}

// look finds replicas that came since.
func (t *tails) look(ctx context.Context) {
	if err := t.source.replicas.again(ctx); err != nil && ctx.Err() == nil {
		t.source.opts.Warn(fmt.Sprintf("%v; trying again", err))
	}
	t.start(ctx)
}

// one follows a replica's log to its end.
func (t *tails) one(ctx context.Context, pod kube.PickerPod) {
	defer func() { t.ended <- pod.Name }()
	log, err := t.source.replicas.log(ctx, pod, kube.LogOptions{Follow: true})
	if err == nil {
		defer log.Close()
		want := t.want
		want.Limit = 0
		err = source.Follow(ctx, "log of "+pod.Name, log, want, t.source.opts, func(rec *explain.Record) error {
			select {
			case t.fresh <- rec:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		t.source.opts.Warn(err.Error())
	default:
		t.source.opts.Warn("the log of " + pod.Name + " has ended; replicas that run are looked for again")
	}
}

// wait waits for all that were started, after their context has ended.
func (t *tails) wait() {
	for len(t.following) > 0 {
		delete(t.following, <-t.ended)
	}
}

// replicaSource are the decisions that the replicas of a picker in a cluster tell. It
// follows them as they come and go.
type replicaSource struct {
	replicas *replicas
	opts     source.Options
	looked   time.Time
}

func (s *replicaSource) pickers(ctx context.Context) (*source.Pickers, error) {
	now := clock.Wall{}.Now()
	if now.Sub(s.looked) >= lookAgain {
		if err := s.replicas.again(ctx); err != nil {
			return nil, err
		}
		s.looked = now
	}
	clients, err := s.replicas.clients()
	return source.NewPickers(clients, s.opts), err
}

// Find implements [source.Source].
func (s *replicaSource) Find(ctx context.Context, id string, nth int) (found source.Found, err error) {
	p, err := s.pickers(ctx)
	if err == nil {
		found, err = p.Find(ctx, id, nth)
	}
	s.failed(err)
	return found, err
}

// Parts are the replicas that run now, for [source.Watch].
func (s *replicaSource) Parts(ctx context.Context) ([]source.Part, error) {
	p, err := s.pickers(ctx)
	if err != nil {
		s.failed(err)
		return nil, err
	}
	return p.Parts(ctx)
}

// Each implements [source.Source].
func (s *replicaSource) Each(ctx context.Context, want source.Want, visit func(*explain.Record) error) (more bool, err error) {
	p, err := s.pickers(ctx)
	if err == nil {
		more, err = p.Each(ctx, want, visit)
	}
	s.failed(err)
	return more, err
}

// failed has the replicas found anew the next time: they may be others.
func (s *replicaSource) failed(err error) {
	if err != nil {
		s.looked = time.Time{}
	}
}
