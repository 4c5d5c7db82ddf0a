package kubetest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

func (f *Server) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since, _ := strconv.Atoi(q.Get("resourceVersion"))
	initial := q.Get("sendInitialEvents") == "true"
	f.mu.Lock()
	missing := f.objects[r.URL.Path] == nil && strings.HasPrefix(r.URL.Path, "/apis/")
	expired := !initial && since < f.forgot
	end, news := make(chan struct{}), make(chan struct{}, 1)
	f.watches[r] = openWatch{news, sync.OnceFunc(func() { close(end) })}
	var first []byte
	if initial {
		since, first = f.version, f.initial(r)
	}
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
	case initial && f.Lists:
		answerStatus(w, 422, "Invalid")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(first)
	_ = http.NewResponseController(w).Flush()
	for {
		since = f.pass(w, r, since)
		select {
		case <-end:
			return
		case <-r.Context().Done():
			return
		case <-news:
		}
	}
}

// initial are the events of what a watch selects of the objects that are there, and
// their bookmark; the lock is held.
func (f *Server) initial(r *http.Request) []byte {
	var events bytes.Buffer
	out, selected := json.NewEncoder(&events), selects(r)
	for _, o := range f.objects[r.URL.Path] {
		if selected(o) {
			_ = out.Encode(Doc{"type": "ADDED", "object": o})
		}
	}
	_ = out.Encode(bookmark(r.URL.Path, f.version))
	return events.Bytes()
}

// bookmark ends the objects that were there at first.
func bookmark(path string, version int) Doc {
	kind, api := "Pod", "v1"
	if parts := strings.Split(path, "/"); parts[1] == "apis" {
		api = parts[2] + "/" + parts[3]
		kind = map[string]string{"inferencepools": "InferencePool", "inferencemodels": "InferenceModel", "inferencemodelrewrites": "InferenceModelRewrite"}[parts[len(parts)-1]]
	} else if strings.HasSuffix(path, "/configmaps") {
		kind = "ConfigMap"
	}
	return Doc{"type": "BOOKMARK", "object": Doc{"kind": kind, "apiVersion": api, "metadata": Doc{
		"resourceVersion": strconv.Itoa(version), "annotations": map[string]string{"k8s.io/initial-events-end": "true"},
	}}}
}

// at is an object as it is told of at a later version.
func at(o Doc, version int) Doc {
	o, meta := maps.Clone(o), maps.Clone(Meta(o))
	meta["resourceVersion"], o["metadata"] = strconv.Itoa(version), meta
	return o
}

// pass sends what has happened since a version.
func (f *Server) pass(w http.ResponseWriter, r *http.Request, since int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	selected := selects(r)
	for _, h := range f.log {
		if h.version <= since || h.path != r.URL.Path {
			continue
		}
		since = h.version
		event := Doc{"type": "MODIFIED", "object": h.is}
		switch was, is := selected(h.was), selected(h.is); {
		case is && !was:
			event["type"] = "ADDED"
		case was && !is:
			event["type"], event["object"] = "DELETED", at(h.was, h.version)
		case !was:
			continue
		}
		_ = json.NewEncoder(w).Encode(event)
		_ = http.NewResponseController(w).Flush()
	}
	return since
}
