package cluster

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
)

// A Log is what a container said.
type Log struct {
	mu    sync.Mutex
	lines []line
	grown chan struct{} // closed when there is more
	ended bool
}

type line struct {
	at   time.Time
	text string
}

// A container is one of a pod, which is namespace/name.
type container struct{ pod, name string }

// Log is the log of a pod's container.
func (c *Cluster) Log(pod, name string) *Log {
	k, key := c.servers.kubelet, container{c.Namespace + "/" + pod, name}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.logs[key] == nil {
		k.logs[key] = &Log{grown: make(chan struct{})}
	}
	return k.logs[key]
}

// Print appends a line, which is said now.
func (l *Log) Print(text string) { l.PrintAt(clock.Wall{}.Now(), text) }

// PrintAt appends a line that was said at a time.
func (l *Log) PrintAt(at time.Time, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line{at, text})
	close(l.grown)
	l.grown = make(chan struct{})
}

// End ends the log: those who follow it get no more.
func (l *Log) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.grown)
		l.grown = make(chan struct{})
	}
}

// from are the lines after the first n.
func (l *Log) from(n int) (lines []line, grown <-chan struct{}, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[n:len(l.lines):len(l.lines)], l.grown, l.ended
}

// logOptions are those of kubectl logs, as the API server passes them on.
type logOptions struct {
	follow, timestamps bool
	since              time.Time
	tail, limit        int // lines and bytes; -1 = all
}

func readOptions(q url.Values) (logOptions, error) {
	o := logOptions{follow: q.Get("follow") == "true", timestamps: q.Get("timestamps") == "true", tail: -1, limit: -1}
	for name, into := range map[string]*int{"tailLines": &o.tail, "limitBytes": &o.limit} {
		if text := q.Get(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return o, err
			}
			*into = n
		}
	}
	if text := q.Get("sinceSeconds"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			return o, err
		}
		o.since = clock.Wall{}.Now().Add(-time.Duration(seconds) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return o, err
		}
		o.since = at
	}
	return o, nil
}

// serveLog answers a request for a container's log.
func (k *kubelet) serveLog(w http.ResponseWriter, r *http.Request) {
	options, err := readOptions(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod, name := r.PathValue("namespace")+"/"+r.PathValue("pod"), r.PathValue("container")
	k.mu.Lock()
	log := k.logs[container{pod, name}]
	k.mu.Unlock()
	if log == nil || r.URL.Query().Get("previous") == "true" {
		http.Error(w, fmt.Sprintf("container %q in pod %q is not available", name, pod), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	options.write(w, log, r.Context().Done(), k.closed)
}

// write writes the lines that are asked for, and with follow those that come until
// somebody leaves.
func (o *logOptions) write(w http.ResponseWriter, log *Log, gone, closed <-chan struct{}) {
	lines, grown, ended := log.from(0)
	seen := len(lines)
	if o.tail >= 0 {
		lines = lines[max(0, len(lines)-o.tail):]
	}
	for {
		for _, l := range lines {
			if o.limit != 0 && !l.at.Before(o.since) {
				o.print(w, l)
			}
		}
		http.NewResponseController(w).Flush() //nolint:errcheck // who is gone is seen below
		if !o.follow || ended {
			return
		}
		select {
		case <-grown:
		case <-gone:
			return
		case <-closed:
			return
		}
		lines, grown, ended = log.from(seen)
		seen += len(lines)
	}
}

func (o *logOptions) print(w io.Writer, l line) {
	text := l.text + "\n"
	if o.timestamps {
		text = l.at.UTC().Format(time.RFC3339Nano) + " " + text
	}
	if o.limit >= 0 {
		text = text[:min(len(text), o.limit)]
		o.limit -= len(text)
	}
	_, _ = io.WriteString(w, text)
}
