package kvfeed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eppctl/eppctl/internal/logkey"
)

// source is where the events of a rank are.
type source struct {
	rank           int
	events, replay string // replay "": missed ones can't be had
}

// find returns where the target's events are; nil when that can't be said now and
// streams run. An engine that says that it has none has none, and so has one that
// connects to the picker. A rank that came by a connection of the engine is left
// out later, see [watch.arrange].
func (w *watch) find(ctx context.Context, running int) []source {
	t, cfg := w.known(), &w.feeds.cfg
	ranks := min(max(t.Ranks, 1), MaxRanks)
	switch {
	case t.Inbound:
		return []source{}
	case t.Events != "":
		return onPorts(t.Events, t.Replay, ranks)
	}
	found, err := ask(ctx, &t)
	switch {
	case err == nil:
		if off := len(found) == 0; off != w.off {
			w.off = off
			w.log.InfoContext(ctx, "what the engine says of its KV events has changed", slog.Bool(logkey.Published, !off))
		}
		return found
	case running > 0 && !errors.Is(err, errNotTold):
		return nil
	}
	host := hostOf(t.BaseURL)
	return onPorts(tcp(host, cfg.Port), tcp(host, cfg.ReplayPort), ranks)
}

// tcp is the address of a port; "" without one.
func tcp(host string, port int) string {
	if port <= 0 || port > 65535 {
		return ""
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// onPorts are the sources of so many ranks on consecutive ports, as engines have
// them.
func onPorts(events, replay string, ranks int) []source {
	found := make([]source, 0, ranks)
	for rank := range ranks {
		s := source{rank: rank, events: further(events, rank), replay: further(replay, rank)}
		if s.events != "" {
			found = append(found, s)
		}
	}
	return found
}

// further is an address some ports behind another; "" when there is none.
func further(address string, by int) string {
	if by == 0 || address == "" {
		return address
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(address, "tcp://"))
	if err != nil {
		return ""
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return ""
	}
	return tcp(host, n+by)
}

// Bounds of a question to an engine, in wall time and bytes.
const (
	askTimeout = 2 * time.Second
	maxAnswer  = 1 << 20
)

// errNotTold: the engine has no page that tells where its events are.
var errNotTold = errors.New("the engine does not tell where its events are")

// ask asks the engine where its events are.
func ask(ctx context.Context, t *Target) ([]source, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	host := hostOf(t.BaseURL)
	if t.Engine != "sglang" {
		body, err := get(ctx, client, t.BaseURL+"/kv_event_sources")
		if err == nil {
			return vllmSources(body, host)
		}
		if t.Engine != "" || !errors.Is(err, errNotTold) {
			return nil, err
		}
	}
	body, err := get(ctx, client, t.BaseURL+"/server_info")
	if err != nil {
		return nil, err
	}
	return sglangSources(body, host)
}

func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "eppctl")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode/100 == 5:
		return nil, fmt.Errorf("%s: HTTP %d", address, resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return nil, errNotTold
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = errNotTold
	}
	return body, err
}

// vllmSources reads the answer of vLLM's /kv_event_sources: its settings by
// rank. What is off is left out, and so are sockets that the engine does not
// bind: nobody can connect to them.
func vllmSources(body []byte, host string) ([]source, error) {
	var ranks map[string]struct {
		Enabled   bool   `json:"enable_kv_cache_events"`
		Publisher string `json:"publisher"`
		Endpoint  string `json:"endpoint"`
		Replay    string `json:"replay_endpoint"`
	}
	if err := json.Unmarshal(body, &ranks); err != nil || len(ranks) > MaxRanks {
		return nil, errNotTold
	}
	found := []source{}
	for key, r := range ranks {
		rank, err := strconv.Atoi(key)
		if err != nil || rank < 0 || !r.Enabled || r.Publisher != "zmq" {
			continue
		}
		if events := bound(r.Endpoint, host); events != "" {
			found = append(found, source{rank: rank, events: events, replay: bound(r.Replay, host)})
		}
	}
	return found, nil
}

// bound is how to connect to what an engine on a host has bound, as vLLM tells
// it: an address with a * or :: in it, or one of the host itself, which it makes
// of "tcp://*:0". "" for any other.
func bound(address, host string) string {
	rest, ok := strings.CutPrefix(address, "tcp://")
	colon := strings.LastIndexByte(rest, ':')
	if !ok || colon < 0 {
		return ""
	}
	if own := strings.Trim(rest[:colon], "[]") == host; !own && !strings.Contains(rest, "*") && !strings.Contains(rest, "::") {
		return ""
	}
	port, err := strconv.Atoi(rest[colon+1:])
	if err != nil {
		return ""
	}
	return tcp(host, port)
}

// sglangSources reads what SGLang's /server_info says of its events.
func sglangSources(body []byte, host string) ([]source, error) {
	var info struct {
		Events *struct {
			Publisher string `json:"publisher"`
			Port      int    `json:"endpoint_port_base"`
			Ranks     int    `json:"dp_size"`
		} `json:"kv_events"`
	}
	if err := json.Unmarshal(body, &info); err != nil || info.Events == nil {
		return nil, errNotTold
	}
	if info.Events.Publisher != "zmq" {
		return []source{}, nil
	}
	return onPorts(tcp(host, info.Events.Port), "", min(max(info.Events.Ranks, 1), MaxRanks)), nil
}
