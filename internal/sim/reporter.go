package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/sim/status"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// A reporter sends the status reports of one server: a full one first, then
// what changed. Whatever goes wrong, the next one is full again.
type reporter struct {
	server *server

	// Of the last report that was taken; used by the loop alone.
	full   bool // the next one has to be
	usage  status.Usage
	blocks int // limit of one report

	mu    sync.Mutex
	taken uint64        // sequence number of the last report taken
	acked uint64        // … and of the last one applied
	news  chan struct{} // closed and replaced when acked changes
}

func newReporter(s *server) *reporter {
	return &reporter{server: s, full: true, blocks: report.MaxBlocks, news: make(chan struct{})}
}

func (r *reporter) seqs() (taken, acked uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken, r.acked
}

// waitNext waits until a report is applied that is taken after this call, or
// one of the contexts ends; a server that ends is nothing to wait for.
func (r *reporter) waitNext(ctx, life context.Context) error {
	r.mu.Lock()
	want := r.taken + 1
	r.mu.Unlock()
	for {
		r.mu.Lock()
		acked, news := r.acked, r.news
		r.mu.Unlock()
		if acked >= want {
			return nil
		}
		select {
		case <-news:
		case <-life.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run sends a report each interval until the server's life ends. The pods'
// turns are spread over the interval.
func (r *reporter) run() {
	s := r.server
	cfg := &s.pod.fleet.cfg
	if cfg.ReportURL == nil {
		return
	}
	wait := cfg.ReportInterval * time.Duration(s.pod.index) / time.Duration(cfg.Pods)
	for {
		if cfg.Clock.Sleep(s.life, wait) != nil || s.pod.reports.pass(s.life) != nil {
			return
		}
		wait = cfg.ReportInterval
		again, err := r.report()
		if err != nil && s.life.Err() == nil {
			cfg.Logger.LogAttrs(s.life, slog.LevelDebug, "status report not applied",
				slog.String(logkey.Pod, s.pod.name), slog.String(logkey.Error, err.Error()))
		}
		if again { // asked for everything: why wait
			if _, err := r.report(); err != nil {
				continue
			}
		}
	}
}

// report takes the state and sends it. It says whether a full report was asked
// for in answer to one that was not.
func (r *reporter) report() (again bool, err error) {
	s := r.server
	f := s.pod.currentFaults()
	url := s.pod.fleet.cfg.ReportURL()
	if url == "" || f.failing != "" || f.dropReports {
		r.full = true // nobody knows what has happened since
		return false, nil
	}
	wasFull := r.full
	r.full = true // until all of it has been applied
	parts := r.take(wasFull, f.health)
	for _, part := range parts {
		resync, err := r.post(url, part)
		if err != nil {
			return false, err
		}
		if resync {
			return !wasFull, nil
		}
	}
	r.ack(parts[len(parts)-1].Seq)
	r.full = false
	return false, nil
}

func (r *reporter) ack(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acked = seq
	close(r.news)
	r.news = make(chan struct{})
}

// take reads the state, in as many reports as the limits ask for.
func (r *reporter) take(full bool, health float64) []*report.Report {
	s := r.server
	s.mu.Lock()
	now := s.now()
	stats := s.engine.Stats(now)
	changes := s.engine.Changes(full)
	r.mu.Lock()
	r.taken++ // with the state, so that waitNext knows what comes after it
	first := r.taken
	r.mu.Unlock()
	s.mu.Unlock()

	base := report.Report{
		Pod: s.pod.name, Epoch: s.epoch, Model: s.pod.fleet.cfg.Model, BlockSize: vllm.TokensPerBlock,
		Adapters: stats.LoadedAdapters, QueueDepth: &stats.Waiting, Health: &health,
		GPUUtilization: r.usage.Read(now, stats.Busy), TakenAt: s.origin.Add(now).UTC(),
	}
	parts := status.Reports(base, changes, r.blocks)
	for i, part := range parts {
		part.Seq = first + uint64(i)
	}
	r.mu.Lock()
	r.taken = first + uint64(len(parts)) - 1
	r.mu.Unlock()
	return parts
}

// maxReply bounds what we read of an answer; a reply has some 20 bytes.
const maxReply = 4096

// post sends one report and says whether the receiver asks for everything.
func (r *reporter) post(url string, part *report.Report) (resync bool, err error) {
	body, err := report.Encode(part)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(r.server.life, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("post report: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token := r.server.pod.fleet.cfg.ReportToken; token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := r.server.pod.fleet.client.Do(req)
	if err != nil {
		return false, fmt.Errorf("post report: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return false, fmt.Errorf("post report: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("post report: status %d", res.StatusCode)
	}
	var reply report.Reply
	if err := json.Unmarshal(answer, &reply); err != nil {
		return false, fmt.Errorf("read the answer to a report: %w", err)
	}
	return reply.Resync, nil
}
