package kube

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

func eventPool(uid string) *InferencePool {
	p := new(InferencePool)
	p.Name, p.Namespace, p.UID = "chat", "serving", types.UID(uid)
	return p
}

// waiting are the words of the events that are to be written.
func (e *Events) waiting() (notes []string) {
	for {
		select {
		case s := <-e.queue:
			notes = append(notes, s.note)
		default:
			return notes
		}
	}
}

func TestEventsAreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := (&Cluster{}).Events(slog.New(slog.DiscardHandler))
		for range 600 { // ten minutes
			e.Say(eventPool("1"), "Empty", "no pod", true)
			time.Sleep(time.Second)
		}
		if got := e.waiting(); len(got) != 2 {
			t.Errorf("written %d times in ten minutes, want 2", len(got))
		}
		e.Say(eventPool("1"), "Config", "first", false)
		e.Say(eventPool("1"), "Config", "second", false)
		e.Say(eventPool("1"), "Config", "third", false)
		e.Say(eventPool("2"), "Config", "first", false)
		if got := e.waiting(); len(got) != 2 {
			t.Errorf("written: %q, want the first of each pool", got)
		}
		time.Sleep(otherWords)
		e.resume()
		if got := e.waiting(); len(got) != 1 || got[0] != "third" {
			t.Errorf("written after the pause: %q, want the last", got)
		}
		e.Say(eventPool("1"), "Config", "fourth", false)
		e.Say(eventPool("1"), "Config", "third", false)
		time.Sleep(otherWords)
		e.resume()
		if got := e.waiting(); len(got) != 0 {
			t.Errorf("written again: %q", got)
		}
	})
}

func TestEventsAreBounded(t *testing.T) {
	e := (&Cluster{}).Events(slog.New(slog.DiscardHandler))
	for i := range 2 * maxRemembered {
		e.Say(eventPool(fmt.Sprint(i)), "Empty", strings.Repeat("x", 5000), true)
	}
	if len(e.series) > maxRemembered {
		t.Errorf("%d are remembered", len(e.series))
	}
	if got := e.Stats().Dropped; got != 2*maxRemembered-maxWaiting {
		t.Errorf("%d dropped", got)
	}
	if got := e.waiting(); len(got) != maxWaiting || len(got[0]) > 1024 {
		t.Errorf("%d wait, of %d bytes", len(got), len(got[0]))
	}
	if got := cutTo(maxNote, strings.Repeat("x", maxNote-1)+"é"); !utf8.ValidString(got) {
		t.Errorf("cut within a letter: %q", got[maxNote-1:])
	}
}

// running writes events to an API server until the test ends.
func running(t *testing.T, f *kubetest.Server) (*Events, *strings.Builder) {
	var log strings.Builder
	e := clusterOf(f).Events(slog.New(slog.NewTextHandler(&log, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = e.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return e, &log
}

func TestEventsAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		e, _ := running(t, f)
		e.Say(eventPool("1"), "Empty", "no pod", true)
		synctest.Wait()
		if n := e.Stats().Written; n != 1 {
			t.Fatalf("%d events are written, want 1", n)
		}
		time.Sleep(eventPause)
		e.Say(eventPool("1"), "Empty", "still no pod", true)
		synctest.Wait()
		events := f.Objects(kubetest.Events)
		if n := e.Stats().Written; n != 2 || len(events) != 1 {
			t.Fatalf("%d events in %d objects, want 2 in 1", n, len(events))
		}
		for _, o := range events {
			about := o["involvedObject"].(map[string]any)
			if fmt.Sprint(o["count"]) != "2" || o["message"] != "still no pod" || o["type"] != "Warning" || about["uid"] != "1" || about["kind"] != "InferencePool" {
				t.Errorf("got %v", o)
			}
		}
	})
}

func TestEventsThatAreForbidden(t *testing.T) {
	bubble(t, func(t *testing.T, f *kubetest.Server) {
		f.Refuse(kubetest.Events, 403)
		e, log := running(t, f)
		for i := range 3 {
			e.Say(eventPool(fmt.Sprint(i)), "Empty", "no pod", true)
		}
		synctest.Wait()
		if n := e.Stats().Dropped; n != 3 {
			t.Errorf("%d are dropped, want 3", n)
		}
		if n := strings.Count(log.String(), "may not write events"); n != 1 {
			t.Errorf("said %d times:\n%s", n, log)
		}
	})
}
