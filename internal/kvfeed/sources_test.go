package kvfeed_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/kvfeed"
	"github.com/eppctl/eppctl/internal/pool"
)

// source is what vLLM tells of a rank's publisher.
func source(p *publisher) map[string]any {
	return map[string]any{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:" + port(p.events)}
}

func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// serveSources is the URL of a vLLM that tells where its events are.
func serveSources(t *testing.T, sources any) string {
	return serve(t, map[string]any{"/kv_event_sources": sources})
}

// serve answers with JSON, and 404 for other paths.
func serve(t *testing.T, pages map[string]any) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestWhereTheEventsAre(t *testing.T) {
	a := newPublisher(t, "")
	var n int
	_ = json.Unmarshal([]byte(port(a.events)), &n)
	for _, tc := range []struct {
		name  string
		pages map[string]any
		cfg   kvfeed.Config
		want  string // address; "" = nowhere
	}{
		{"vLLM tells", map[string]any{"/kv_event_sources": map[string]any{"0": source(a)}}, kvfeed.Config{Port: 1}, a.events},
		{"SGLang tells", map[string]any{"/server_info": map[string]any{"kv_events": map[string]any{"publisher": "zmq", "endpoint_port_base": n, "dp_size": 1}}}, kvfeed.Config{Port: 1}, a.events},
		{"nobody tells: the configured port", nil, kvfeed.Config{Port: n}, a.events},
		{"a page that is none", map[string]any{"/kv_event_sources": "what?"}, kvfeed.Config{Port: n}, a.events},
		{"off", map[string]any{"/kv_event_sources": map[string]any{"0": map[string]any{"enable_kv_cache_events": false}}}, kvfeed.Config{Port: n}, ""},
		{"no publisher", map[string]any{"/kv_event_sources": map[string]any{"0": map[string]any{"enable_kv_cache_events": true, "publisher": "null"}}}, kvfeed.Config{Port: n}, ""},
		{"it connects elsewhere", map[string]any{"/kv_event_sources": map[string]any{"0": map[string]any{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://router:5557"}}}, kvfeed.Config{Port: n}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url := serve(t, tc.pages)
			r := newRig(t, tc.cfg, pool.Member{Name: "a", Address: strings.TrimPrefix(url, "http://"), URL: url})
			if tc.want == "" {
				until(t, "it is said that there are none", func() bool { return r.log.count("published=false") == 1 })
				if v := r.view("a"); v.Streams != nil {
					t.Errorf("streams %+v", v.Streams)
				}
				return
			}
			until(t, "it is listened to", func() bool { return r.connected("a", 0) })
			if s := r.stream("a", 0); s.Events != tc.want {
				t.Errorf("listens at %s, want %s", s.Events, tc.want)
			}
		})
	}
}
