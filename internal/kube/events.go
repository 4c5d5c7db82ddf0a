package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/logkey"
)

// How long an event of one reason is not written again: in the same words, and in
// others, of which the last are written.
const (
	eventPause = 5 * time.Minute
	otherWords = 10 * time.Second
)

// Bounds of [Events].
const (
	maxNote       = 1000 // bytes; the API takes 1,024
	maxWaiting    = 32   // events that are not written yet
	maxRemembered = 256  // pools and reasons
)

// Events writes Kubernetes Events about pools and what belongs to them. What can't be
// written is dropped and counted.
type Events struct {
	cluster *Cluster
	log     *slog.Logger
	queue   chan said

	mu      sync.Mutex
	series  map[seriesKey]*series
	stats   EventStats
	refused bool // it was said that events may not be written
}

// EventStats count events.
type EventStats struct{ Written, Dropped uint64 }

type seriesKey struct{ uid, reason string }

// series is one event and its repetitions.
type series struct {
	name    string // of the object in the cluster; "" = there is none yet
	first   time.Time
	written time.Time
	count   int32  // how often it was written
	last    string // that was written
	next    *said  // other words that came too soon; nil = none
}

// Object is what an event is about.
type Object struct {
	APIVersion, Kind string
	Name             Name
	UID              types.UID
}

type said struct {
	of           Object
	reason, note string
	at           time.Time
	warning      bool
}

// Events makes a writer of events, which [Events.Run] runs.
func (c *Cluster) Events(log *slog.Logger) *Events {
	return &Events{cluster: c, log: log, queue: make(chan said, maxWaiting), series: map[seriesKey]*series{}}
}

// Say is [Events.SayOf] for a pool.
func (e *Events) Say(pool *InferencePool, reason, note string, warning bool) {
	e.SayOf(Object{cmp.Or(pool.APIVersion, PoolV1.String()), "InferencePool", Name{pool.Namespace, pool.Name}, pool.UID}, reason, note, warning)
}

// SayOf says something about an object, here in the log as well, unless it was said a
// short while ago. It does not wait.
func (e *Events) SayOf(of Object, reason, note string, warning bool) {
	now, key := clock.Wall{}.Now(), seriesKey{string(of.UID), reason}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.series[key]
	if s == nil {
		if len(e.series) >= maxRemembered {
			e.forgetOldest()
		}
		s = &series{first: now}
		e.series[key] = s
	}
	news := said{of: of, reason: reason, note: cutTo(maxNote, note), at: now, warning: warning}
	switch since := now.Sub(s.written); {
	case s.written.IsZero() || since >= eventPause:
	case news.note == s.last:
		s.next = nil
		return
	case since < otherWords:
		s.next = &news
		return
	}
	e.enqueue(s, news)
}

func (e *Events) enqueue(s *series, news said) {
	s.next = nil
	select {
	case e.queue <- news:
		s.written, s.last = news.at, news.note
		s.count++
		level := slog.LevelInfo
		if news.warning {
			level = slog.LevelWarn
		}
		e.log.Log(context.Background(), level, "event", slog.String(logkey.Of, news.of.Kind+" "+news.of.Name.String()),
			slog.String(logkey.Reason, news.reason), slog.String(logkey.Note, news.note))
	default:
		e.stats.Dropped++
	}
}

// resume writes what had to wait.
func (e *Events) resume() {
	now := clock.Wall{}.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.series {
		if s.next != nil && now.Sub(s.written) >= otherWords {
			s.next.at = now
			e.enqueue(s, *s.next)
		}
	}
}

func (e *Events) forgetOldest() {
	var oldest seriesKey
	for key, s := range e.series {
		if o := e.series[oldest]; o == nil || s.written.Before(o.written) {
			oldest = key
		}
	}
	delete(e.series, oldest)
}

// cutTo leaves out what is beyond so many bytes.
func cutTo(most int, text string) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Stats are the counts.
func (e *Events) Stats() EventStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// Run writes until ctx ends.
func (e *Events) Run(ctx context.Context) error {
	again := time.NewTicker(10 * time.Second)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
			e.resume()
		case s := <-e.queue:
			e.write(ctx, s)
		}
	}
}

// write writes one event, as a new one or as another count of one that is there.
func (e *Events) write(ctx context.Context, s said) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	e.mu.Lock()
	var of series
	if known := e.series[seriesKey{string(s.of.UID), s.reason}]; known != nil {
		of = *known
	}
	e.mu.Unlock()
	name, err := of.name, error(nil)
	if name != "" {
		err = e.patch(ctx, &s, &of)
	}
	if name == "" || apierrors.IsNotFound(err) { // events go away after an hour or so
		name, err = e.create(ctx, &s, &of)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.stats.Dropped++
		if apierrors.IsForbidden(err) && !e.refused {
			e.refused = true
			e.log.Warn("may not write events about the pool: give its ServiceAccount the Role of 'eppctl manifests' (verbs create and patch of events)",
				slog.String(logkey.Namespace, s.of.Name.Namespace))
		}
		return
	}
	e.stats.Written++
	if known := e.series[seriesKey{string(s.of.UID), s.reason}]; known != nil {
		known.name = name
	}
}

// kind is the type of the event.
func (s *said) kind() string {
	if s.warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

func (e *Events) create(ctx context.Context, s *said, of *series) (name string, err error) {
	client, err := e.cluster.core()
	if err != nil {
		return "", err
	}
	host, _ := os.Hostname()
	name = s.of.Name.Name[:min(len(s.of.Name.Name), maxObjectName-20)] + "." + strconv.FormatInt(s.at.UnixNano(), 16)
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.of.Name.Namespace},
		InvolvedObject: corev1.ObjectReference{
			Kind: s.of.Kind, APIVersion: s.of.APIVersion, Namespace: s.of.Name.Namespace, Name: s.of.Name.Name, UID: s.of.UID,
		},
		Reason: s.reason, Message: s.note, Type: s.kind(), Source: corev1.EventSource{Component: "eppctl"},
		FirstTimestamp: metav1.NewTime(of.first), LastTimestamp: metav1.NewTime(s.at), Count: max(of.count, 1),
		ReportingController: "eppctl.dev/picker", ReportingInstance: host,
	}
	return name, client.Post().Namespace(s.of.Name.Namespace).Resource("events").Body(event).Do(ctx).Error()
}

func (e *Events) patch(ctx context.Context, s *said, of *series) error {
	client, err := e.cluster.core()
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"count": of.count, "lastTimestamp": metav1.NewTime(s.at), "message": s.note, "type": s.kind()})
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	return client.Patch(types.MergePatchType).Namespace(s.of.Name.Namespace).Resource("events").Name(of.name).Body(body).Do(ctx).Error()
}
