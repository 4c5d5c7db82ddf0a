package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	text := "77 (a) b (c) S 1 77 77 0 -1 4194560 100 0 0 0 120 30 5 5 20 0 9 0 100 1 2\n"
	if got, err := parseStat(text); err != nil || got != 1500*time.Millisecond {
		t.Errorf("parseStat = %v, %v; want 1.5 s", got, err)
	}
	for _, bad := range []string{"", "77 (a) S 1", strings.Replace(text, " 30 ", " x ", 1)} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("parseStat(%q): no error", bad)
		}
	}
}

func TestParseStatus(t *testing.T) {
	rss, peak, err := parseStatus("Name:\ta\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n")
	if err != nil || rss != 1<<20 || peak != 2<<20 {
		t.Errorf("parseStatus = %d, %d, %v", rss, peak, err)
	}
	if _, _, err := parseStatus("Name:\ta\nState:\tZ (zombie)\n"); err == nil {
		t.Error("a process without memory: no error")
	}
}

// A figure that the page does not have is no zero.
func TestPageTellsUnknownFromZero(t *testing.T) {
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n++; n == 1 {
			w.Write([]byte("go_memstats_mallocs_total 1.5e+03\nother 7\n"))
		} else {
			w.Write([]byte("# a comment\ngo_memstats_mallocs_total 3500\ngo_memstats_heap_inuse_bytes 64\n"))
		}
	}))
	defer server.Close()
	m := meter{page: strings.TrimPrefix(server.URL, "http://")}
	if err := m.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	u, err := m.stop(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if u.AllocsPerRequest == nil || *u.AllocsPerRequest != 200 || u.HeapBytes == nil || *u.HeapBytes != 64 {
		t.Errorf("usage %+v, want 200 allocations a request and 64 bytes", u)
	}
	if u.AllocBytesPerRequest != nil || u.CPUMsPerRequest != nil || u.RSSBytes != nil {
		t.Errorf("usage %+v: what is not known has a value", u)
	}
}
