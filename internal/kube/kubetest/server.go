// Package kubetest is an API server for tests: it lists and watches what it is given,
// and can be made to refuse, to forget old versions and to drop connections. Behind it
// are nodes that forward ports and tell logs. It checks no schema and no rights; the
// tests against the real one are in internal/e2e.
package kubetest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/eppctl/eppctl/internal/clock"
)

// Server is one that lists and watches what it is given.
type Server struct {
	URL string
	// Transport reaches one that is in memory, nil the network.
	Transport http.RoundTripper
	// Lists makes it unable to stream lists; it is set before anybody asks.
	Lists bool

	mu      sync.Mutex
	version int
	log     []happening
	objects map[string]map[string]Doc // by path of the list, then by name
	refused map[string]int            // by path of the list: what is answered in its place
	forgot  int                       // versions up to here have expired
	ports   map[string]string         // "POD:PORT" to the address behind it
	logs    map[string]string         // by pod
	instead func(http.ResponseWriter, *http.Request) bool
	watches map[*http.Request]openWatch
	asked   map[string][]time.Time // by path

	forwards sync.WaitGroup
}

// Doc is a part of an object.
type Doc map[string]any

type happening struct {
	version int
	path    string
	was, is Doc // nil: it was, or is, not there
}

// openWatch is a watch that a client has open.
type openWatch struct {
	news chan struct{} // something was changed
	end  func()
}

func newServer() *Server {
	return &Server{
		objects: map[string]map[string]Doc{}, refused: map[string]int{}, watches: map[*http.Request]openWatch{}, asked: map[string][]time.Time{},
		ports: map[string]string{}, logs: map[string]string{},
	}
}

// New starts a server on loopback that ends with the test.
func New(t *testing.T) *Server {
	f := newServer()
	server := httptest.NewServer(f)
	f.URL = server.URL
	t.Cleanup(func() {
		f.Cut()
		server.Close()
		f.Forwarded()
	})
	return f
}

// Put makes or changes an object of a list.
func (f *Server) Put(path string, o Doc) { f.change(path, docName(o), o) }

// Install lets a list be there that has no object yet.
func (f *Server) Install(paths ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range paths {
		if f.objects[path] == nil {
			f.objects[path] = map[string]Doc{}
		}
	}
}

// Drop deletes an object.
func (f *Server) Drop(path, name string) { f.change(path, name, nil) }

func docName(o Doc) string { return fmt.Sprint(Meta(o)["name"]) }

func (f *Server) change(path, name string, o Doc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	if f.objects[path] == nil {
		f.objects[path] = map[string]Doc{}
	}
	was := f.objects[path][name]
	if o == nil {
		delete(f.objects[path], name)
	} else {
		o["metadata"].(Doc)["resourceVersion"] = strconv.Itoa(f.version)
		f.objects[path][name] = o
	}
	f.log = append(f.log, happening{f.version, path, was, o})
	for _, w := range f.watches {
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
}

// Refuse answers requests for a list with a status; 0 = no longer. Watches that are
// open are cut.
func (f *Server) Refuse(path string, status int) {
	f.mu.Lock()
	f.refused[path] = status
	f.mu.Unlock()
	f.Cut()
}

// Instead lets requests be answered by somebody else first, who says whether it did;
// nil = by nobody. Watches that are open are cut.
func (f *Server) Instead(answer func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	f.instead = answer
	f.mu.Unlock()
	f.Cut()
}

// Cut ends all watches.
func (f *Server) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.watches {
		w.end()
	}
}

// Forget lets all versions expire, and cuts the watches.
func (f *Server) Forget() {
	f.mu.Lock()
	f.version++
	f.forgot = f.version
	f.mu.Unlock()
	f.Cut()
}

// Backup is the state of now, for [Server.Restore].
type Backup struct {
	version int
	objects map[string]map[string]Doc
}

// Backup takes one.
func (f *Server) Backup() Backup {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := Backup{f.version, map[string]map[string]Doc{}}
	for path, of := range f.objects {
		b.objects[path] = maps.Clone(of)
	}
	return b
}

// Restore takes the server back, once: what was done since has never been. Watches that
// are open are cut.
func (f *Server) Restore(b Backup) {
	f.mu.Lock()
	f.version, f.objects, f.forgot = b.version, b.objects, 0
	f.log = slices.DeleteFunc(f.log, func(h happening) bool { return h.version > b.version })
	f.mu.Unlock()
	f.Cut()
}

// Skip lets versions go by.
func (f *Server) Skip(versions int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version += versions
}

// Requests is how often a path was asked for.
func (f *Server) Requests(path string) int { return len(f.Asked(path)) }

// Asked is when a path was asked for.
func (f *Server) Asked(path string) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked[path])
}

func answerStatus(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(Doc{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "fake: " + reason})
}

var statusReasons = map[int]string{401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 410: "Expired", 503: "ServiceUnavailable"}

// ServeHTTP implements [http.Handler].
func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked[r.URL.Path] = append(f.asked[r.URL.Path], clock.Wall{}.Now())
	refused, instead := f.refused[r.URL.Path], f.instead
	if all := f.refused["*"]; all != 0 {
		refused = all
	}
	f.mu.Unlock()
	if instead != nil && instead(w, r) {
		return
	}
	if refused != 0 {
		answerStatus(w, refused, statusReasons[refused])
		return
	}
	switch {
	case f.kubelet(w, r):
	case r.Method == http.MethodPost, r.Method == http.MethodPatch:
		f.write(w, r)
	case r.URL.Query().Get("watch") != "":
		f.watch(w, r)
	default:
		f.list(w, r)
	}
}

// write takes an object that is created, or changes to one.
func (f *Server) write(w http.ResponseWriter, r *http.Request) {
	sent, err := read(r)
	if err != nil {
		answerStatus(w, http.StatusBadRequest, "BadRequest")
		return
	}
	dir := r.URL.Path
	if r.Method == http.MethodPatch {
		var last string
		dir, last = cutLast(r.URL.Path)
		f.mu.Lock()
		was := f.objects[dir][last]
		f.mu.Unlock()
		if was == nil {
			answerStatus(w, http.StatusNotFound, "NotFound")
			return
		}
		is := maps.Clone(was)
		maps.Copy(is, sent)
		sent = is
	} else {
		meta, _ := sent["metadata"].(map[string]any)
		sent["metadata"] = Doc(meta)
	}
	f.Put(dir, sent)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(sent)
}

// read reads an object in one of the two forms that clients send.
func read(r *http.Request) (sent Doc, err error) {
	b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if r.Header.Get("Content-Type") == runtime.ContentTypeProtobuf {
		scheme := runtime.NewScheme()
		if err := corev1.AddToScheme(scheme); err != nil {
			return nil, err
		}
		o, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(b, nil, nil)
		if err != nil {
			return nil, err
		}
		if b, err = json.Marshal(o); err != nil {
			return nil, err
		}
	}
	return sent, json.Unmarshal(b, &sent)
}

// Objects are the objects of a list, by name.
func (f *Server) Objects(path string) map[string]Doc {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.objects[path])
}

// selects reports what of a list a request asks for.
func selects(r *http.Request) func(Doc) bool {
	q := r.URL.Query()
	selector, err := labels.Parse(q.Get("labelSelector"))
	return func(o Doc) bool {
		if o == nil || err != nil {
			return false
		}
		m := o["metadata"].(Doc)
		if field := q.Get("fieldSelector"); field != "" && field != fmt.Sprint("metadata.name=", m["name"]) {
			return false
		}
		set, _ := m["labels"].(map[string]string)
		return selector.Matches(labels.Set(set))
	}
}

func (f *Server) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, last := cutLast(r.URL.Path)
	if o := f.objects[dir][last]; o != nil {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(o)
		return
	}
	_, of := cutLast(dir)
	one := kinds[of] != "" && of != "namespaces" // those are there, whether or not they were put
	if f.objects[r.URL.Path] == nil && (one || f.objects[dir] != nil) {
		answerStatus(w, 404, "NotFound")
		return
	}
	kind, version := emptyList(r.URL.Path)
	items, selected := []Doc{}, selects(r)
	for _, name := range slices.Sorted(maps.Keys(f.objects[r.URL.Path])) {
		o := f.objects[r.URL.Path][name]
		kind, version = fmt.Sprint(o["kind"], "List"), fmt.Sprint(o["apiVersion"])
		if selected(o) {
			items = append(items, o)
		}
	}
	if f.objects[r.URL.Path] == nil && strings.HasPrefix(r.URL.Path, "/apis/") {
		answerStatus(w, 404, "NotFound") // not installed
		return
	}
	meta := Doc{"resourceVersion": strconv.Itoa(f.version)}
	items = page(r, items, meta)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(Doc{"kind": kind, "apiVersion": version, "metadata": meta, "items": items})
}

// kinds are the objects of lists, by the ends of their paths.
var kinds = map[string]string{
	"configmaps": "ConfigMap", "events": "Event", "inferencemodelrewrites": "InferenceModelRewrite", "inferencemodels": "InferenceModel",
	"inferencepools": "InferencePool", "leases": "Lease", "namespaces": "Namespace", "pods": "Pod", "services": "Service",
}

// emptyList is what a list is called that has no object to tell.
func emptyList(path string) (kind, version string) {
	dir, last := cutLast(path)
	version = "v1"
	if group, ok := strings.CutPrefix(dir, "/apis/"); ok {
		version = strings.Join(strings.SplitN(group, "/", 3)[:2], "/")
	}
	return kinds[last] + "List", version
}

// page is the part of a list that is asked for; meta tells how to go on.
func page(r *http.Request, items []Doc, meta Doc) []Doc {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	if limit == 0 {
		return items
	}
	to := min(from+limit, len(items))
	if to < len(items) {
		meta["continue"] = strconv.Itoa(to)
	}
	return items[min(from, to):to]
}

func cutLast(path string) (dir, last string) {
	i := strings.LastIndex(path, "/")
	return path[:i], path[i+1:]
}
