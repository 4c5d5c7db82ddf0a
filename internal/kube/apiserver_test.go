package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
)

// apiServer is an API server that lists and watches what it is given.
type apiServer struct {
	server *httptest.Server

	mu      sync.Mutex
	version int
	log     []happening
	objects map[string]map[string]doc // by path of the list, then by name
	refused map[string]int            // by path of the list: what is answered in its place
	forgot  int                       // versions up to here have expired
	watches map[*http.Request]func()  // ends one
	asked   map[string]int            // requests by path
	streams bool                      // it can stream lists
}

type doc map[string]any

type happening struct {
	version int
	path    string
	was, is doc // nil: it was, or is, not there
}

func newAPIServer(t *testing.T) *apiServer {
	f := &apiServer{
		objects: map[string]map[string]doc{}, refused: map[string]int{}, watches: map[*http.Request]func(){}, asked: map[string]int{}, streams: true,
	}
	f.server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.cut()
		f.server.Close()
	})
	return f
}

func (f *apiServer) cluster() *Cluster {
	return &Cluster{Namespace: "serving", config: &rest.Config{Host: f.server.URL, QPS: -1}}
}

// put makes or changes an object of a list.
func (f *apiServer) put(path string, o doc) { f.change(path, docName(o), o) }

func (f *apiServer) drop(path, name string) { f.change(path, name, nil) }

func docName(o doc) string { return fmt.Sprint(o["metadata"].(doc)["name"]) }

func (f *apiServer) change(path, name string, o doc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	if f.objects[path] == nil {
		f.objects[path] = map[string]doc{}
	}
	was := f.objects[path][name]
	if o == nil {
		delete(f.objects[path], name)
	} else {
		o["metadata"].(doc)["resourceVersion"] = strconv.Itoa(f.version)
		f.objects[path][name] = o
	}
	f.log = append(f.log, happening{f.version, path, was, o})
}

// refuse answers requests for a list with a status; 0 = no longer. Watches that are
// open are cut.
func (f *apiServer) refuse(path string, status int) {
	f.mu.Lock()
	f.refused[path] = status
	f.mu.Unlock()
	f.cut()
}

// cut ends all watches.
func (f *apiServer) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, end := range f.watches {
		end()
	}
}

// forget lets all versions expire, and cuts the watches.
func (f *apiServer) forget() {
	f.mu.Lock()
	f.version++
	f.forgot = f.version
	f.mu.Unlock()
	f.cut()
}

func (f *apiServer) requests(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[path]
}

func answerStatus(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(doc{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "fake: " + reason})
}

var statusReasons = map[int]string{401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 410: "Expired", 503: "ServiceUnavailable"}

// ServeHTTP implements [http.Handler].
func (f *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked[r.URL.Path]++
	refused := f.refused[r.URL.Path]
	if any := f.refused["*"]; any != 0 {
		refused = any
	}
	f.mu.Unlock()
	if refused != 0 {
		answerStatus(w, refused, statusReasons[refused])
		return
	}
	if r.URL.Query().Get("watch") != "" {
		f.watch(w, r)
		return
	}
	f.list(w, r)
}

func selects(r *http.Request, o doc) bool {
	if o == nil {
		return false
	}
	m := o["metadata"].(doc)
	if field := r.URL.Query().Get("fieldSelector"); field != "" && field != fmt.Sprint("metadata.name=", m["name"]) {
		return false
	}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	set, _ := m["labels"].(map[string]string)
	return err == nil && selector.Matches(labels.Set(set))
}

func (f *apiServer) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, last := cutLast(r.URL.Path)
	if o := f.objects[dir][last]; o != nil {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(o)
		return
	}
	if f.objects[r.URL.Path] == nil && f.objects[dir] != nil {
		answerStatus(w, 404, "NotFound")
		return
	}
	items, kind, version := []doc{}, "PodList", "v1"
	for _, o := range f.objects[r.URL.Path] {
		kind, version = fmt.Sprint(o["kind"], "List"), fmt.Sprint(o["apiVersion"])
		if selects(r, o) {
			items = append(items, o)
		}
	}
	if f.objects[r.URL.Path] == nil && strings.HasPrefix(r.URL.Path, "/apis/") {
		answerStatus(w, 404, "NotFound") // not installed
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(doc{"kind": kind, "apiVersion": version, "metadata": doc{"resourceVersion": strconv.Itoa(f.version)}, "items": items})
}

func cutLast(path string) (dir, last string) {
	i := strings.LastIndex(path, "/")
	return path[:i], path[i+1:]
}

func (f *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since, _ := strconv.Atoi(q.Get("resourceVersion"))
	initial := q.Get("sendInitialEvents") == "true"
	f.mu.Lock()
	missing := f.objects[r.URL.Path] == nil && strings.HasPrefix(r.URL.Path, "/apis/")
	expired := !initial && since < f.forgot
	end := make(chan struct{})
	f.watches[r] = sync.OnceFunc(func() { close(end) })
	var first []doc
	if initial {
		since = f.version
		for _, o := range f.objects[r.URL.Path] {
			if selects(r, o) {
				first = append(first, doc{"type": "ADDED", "object": o})
			}
		}
		first = append(first, bookmark(r.URL.Path, since))
	}
	b, _ := json.Marshal(first)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.watches, r)
		f.mu.Unlock()
	}()
	switch {
	case missing:
		answerStatus(w, 404, "NotFound")
		return
	case expired:
		answerStatus(w, 410, "Expired")
		return
	case initial && !f.streams:
		answerStatus(w, 422, "Invalid")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	var events []json.RawMessage
	_ = json.Unmarshal(b, &events)
	for _, e := range events {
		_, _ = w.Write(append(e, '\n'))
	}
	_ = http.NewResponseController(w).Flush()
	for {
		since = f.pass(w, r, since)
		select {
		case <-end:
			return
		case <-r.Context().Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// bookmark ends the objects that were there at first.
func bookmark(path string, version int) doc {
	kind, api := "Pod", "v1"
	if parts := strings.Split(path, "/"); parts[1] == "apis" {
		api = parts[2] + "/" + parts[3]
		kind = map[string]string{"inferencepools": "InferencePool", "inferencemodels": "InferenceModel", "inferencemodelrewrites": "InferenceModelRewrite"}[parts[len(parts)-1]]
	} else if strings.HasSuffix(path, "/configmaps") {
		kind = "ConfigMap"
	}
	return doc{"type": "BOOKMARK", "object": doc{"kind": kind, "apiVersion": api, "metadata": doc{
		"resourceVersion": strconv.Itoa(version), "annotations": map[string]string{"k8s.io/initial-events-end": "true"},
	}}}
}

// pass sends what has happened since a version.
func (f *apiServer) pass(w http.ResponseWriter, r *http.Request, since int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.log {
		if h.version <= since || h.path != r.URL.Path {
			continue
		}
		since = h.version
		event := doc{"type": "MODIFIED", "object": h.is}
		switch was, is := selects(r, h.was), selects(r, h.is); {
		case is && !was:
			event["type"] = "ADDED"
		case was && !is:
			event["type"], event["object"] = "DELETED", h.was
		case !was:
			continue
		}
		_ = json.NewEncoder(w).Encode(event)
		_ = http.NewResponseController(w).Flush()
	}
	return since
}
