package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// The kernel tells CPU time in these, on all architectures (USER_HZ).
const clockTick = 10 * time.Millisecond

// cpuTime is the CPU time that a process has used, in user and kernel mode.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(b))
}

// parseStat reads utime and stime of /proc/PID/stat. The command's name may hold
// anything, so fields count from its closing parenthesis.
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	if len(fields) < 13 {
		return 0, errors.New("/proc/PID/stat: too few fields")
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/PID/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// memory is what a process holds, in bytes: now and at most.
func memory(pid int) (rss, peak int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	return parseStatus(string(b))
}

func parseStatus(text string) (rss, peak int64, err error) {
	found := map[string]int64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		if kilobytes, ok := strings.CutSuffix(strings.TrimSpace(value), " kB"); ok {
			if n, err := strconv.ParseInt(kilobytes, 10, 64); err == nil {
				found[name] = n << 10
			}
		}
	}
	rss, ok := found["VmRSS"]
	peak, has := found["VmHWM"]
	if !ok || !has {
		return 0, 0, errors.New("/proc/PID/status: no VmRSS and VmHWM; has the process ended?")
	}
	return rss, peak, nil
}

// The families of the Go runtime on a metrics page.
const (
	mallocsFamily = "go_memstats_mallocs_total"
	bytesFamily   = "go_memstats_alloc_bytes_total"
	heapFamily    = "go_memstats_heap_inuse_bytes"
)

// runtimePage is what a picker's metrics page says about its Go runtime; nil
// when there is no page, or nothing of it on it.
type runtimePage map[string]float64

const maxPage = 64 << 20

// readPage reads the page at a host and port; "" is no page.
func readPage(ctx context.Context, address string) (runtimePage, error) {
	if address == "" {
		return nil, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("http://%s/metrics: HTTP %d", address, resp.StatusCode)
	}
	return parsePage(io.LimitReader(resp.Body, maxPage))
}

func parsePage(r io.Reader) (runtimePage, error) {
	page := runtimePage{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if !strings.HasPrefix(name, "go_memstats_") {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			page[name] = v
		}
	}
	return page, lines.Err()
}

// since is by how much a counter grew; nil when it is not known.
func (p runtimePage) since(before runtimePage, family string) *float64 {
	now, ok := p[family]
	then, had := before[family]
	if !ok || !had {
		return nil
	}
	return new(now - then)
}

// usage is what a process needed. What is not known is left out.
type usage struct {
	CPUMsPerRequest      *float64 `json:"cpuMsPerRequest,omitempty"`
	IdleCPUMsPerSecond   *float64 `json:"idleCpuMsPerSecond,omitempty"` // before the load
	RSSBytes             *int64   `json:"rssBytes,omitempty"`
	PeakRSSBytes         *int64   `json:"peakRssBytes,omitempty"`
	HeapBytes            *float64 `json:"heapBytes,omitempty"` // in use, garbage included
	AllocsPerRequest     *float64 `json:"allocsPerRequest,omitempty"`
	AllocBytesPerRequest *float64 `json:"allocBytesPerRequest,omitempty"`
}

// meter reads a process before and after the load. A pid of 0 is an unknown one.
type meter struct {
	pid  int
	page string
	cpu  time.Duration
	at   runtimePage
}

func (m *meter) start(ctx context.Context) (err error) {
	if m.pid != 0 {
		if m.cpu, err = cpuTime(m.pid); err != nil {
			return err
		}
	}
	m.at, err = readPage(ctx, m.page)
	return err
}

func (m *meter) stop(ctx context.Context, requests int) (*usage, error) {
	u := &usage{}
	if m.pid != 0 {
		cpu, err := cpuTime(m.pid)
		if err != nil {
			return nil, err
		}
		u.CPUMsPerRequest = new((cpu - m.cpu).Seconds() * 1e3 / float64(requests))
		rss, peak, err := memory(m.pid)
		if err != nil {
			return nil, err
		}
		u.RSSBytes, u.PeakRSSBytes = &rss, &peak
	}
	page, err := readPage(ctx, m.page)
	if err != nil {
		return nil, err
	}
	per := func(grown *float64) *float64 {
		if grown != nil {
			*grown /= float64(requests)
		}
		return grown
	}
	u.AllocsPerRequest = per(page.since(m.at, mallocsFamily))
	u.AllocBytesPerRequest = per(page.since(m.at, bytesFamily))
	if heap, ok := page[heapFamily]; ok {
		u.HeapBytes = &heap
	}
	return u, nil
}
