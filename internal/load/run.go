package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
)

// Source gives the requests of the traffic, in the order of their arrival;
// io.EOF is its end.
type Source interface {
	Next() (*Arrival, error)
	Close() error
}

// Config is what a run needs.
type Config struct {
	Source Source
	URL    string // base URL of the gateway
	Model  string
	Clock  clock.Clock // the picker's
	Limit  int         // requests; 0 = all
	// Drain is how long requests may go on after the context has ended.
	Drain time.Duration
	// Progress is called about once a second of wall time; nil = never.
	Progress func(Progress)
}

// Progress is how far a run has come.
type Progress struct {
	Sent, Done, Failed int
	Elapsed            time.Duration // by the picker's clock
	Rest               time.Duration // until everything was sent; 0 = not known
}

// Result is what the clients saw.
type Result struct {
	Sent, Failed  int
	Started       time.Time // by the picker's clock
	Elapsed, Wall time.Duration
	FirstFailure  string
}

const (
	maxOpen     = 8192     // requests that run at once; more arrivals wait
	maxAnswer   = 64 << 20 // bytes of one answer
	maxKept     = 1 << 16  // bytes of an error that are kept
	idleClients = 1024
)

// runner is the state of a run.
type runner struct {
	cfg    Config
	client *http.Client
	open   chan struct{}
	sent   atomic.Int64
	done   atomic.Int64
	failed atomic.Int64

	mu    sync.Mutex
	first string // failure
}

// Run sends the traffic and waits for all answers. A context that ends stops the
// arrivals, and after the drain time the requests that still run.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	r := &runner{cfg: cfg, open: make(chan struct{}, maxOpen), client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: idleClients, MaxIdleConns: idleClients, IdleConnTimeout: 3 * time.Second,
	}}}
	defer r.client.CloseIdleConnections()
	switch s := cfg.Source.(type) {
	case *Trace:
		s.model = cfg.Model
	case *Conversations:
		s.model = cfg.Model
	}
	wall := clock.Wall{}.Now()
	out := &Result{Started: cfg.Clock.Now()}
	reporting, stop := context.WithCancel(ctx)
	var wg, reporter sync.WaitGroup
	reporter.Go(func() { r.report(reporting, out.Started) })
	// Requests that run when ctx ends may finish, for the drain time.
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() {
		if (clock.Wall{}).Sleep(requests, cfg.Drain) == nil {
			cut()
		}
	})()
	err := r.arrivals(ctx, requests, &wg, out.Started)
	wg.Wait()
	stop()
	reporter.Wait()
	out.Sent, out.Failed, out.FirstFailure = int(r.sent.Load()), int(r.failed.Load()), r.first
	out.Elapsed, out.Wall = cfg.Clock.Now().Sub(out.Started), clock.Wall{}.Now().Sub(wall)
	return out, err
}

// arrivals sends each request at its time.
func (r *runner) arrivals(ctx, requests context.Context, wg *sync.WaitGroup, start time.Time) error {
	for r.cfg.Limit == 0 || int(r.sent.Load()) < r.cfg.Limit {
		a, err := r.cfg.Source.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !r.waitFor(ctx, start.Add(a.At)) {
			return nil // the end was asked for
		}
		select {
		case r.open <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		r.sent.Add(1)
		wg.Go(func() {
			defer func() { <-r.open }()
			r.send(requests, a)
		})
	}
	return nil
}

// waitFor waits for a time by the picker's clock; false when ctx ends before.
func (r *runner) waitFor(ctx context.Context, at time.Time) bool {
	return r.cfg.Clock.Sleep(ctx, at.Sub(r.cfg.Clock.Now())) == nil
}

func (r *runner) send(ctx context.Context, a *Arrival) {
	answer, err := r.request(ctx, a)
	if err != nil {
		r.failed.Add(1)
		r.mu.Lock()
		if r.first == "" {
			r.first = err.Error()
		}
		r.mu.Unlock()
	}
	r.done.Add(1)
	if c, ok := r.cfg.Source.(*Conversations); ok {
		c.answered(a.conversation, answer, err == nil)
	}
}

func (r *runner) request(ctx context.Context, a *Arrival) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.cfg.URL+a.Path, bytes.NewReader(a.Body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxKept)) // what came is enough
		return "", fmt.Errorf("HTTP %d: %s", resp.StatusCode, bytes.TrimSpace(text))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	if a.conversation == nil {
		return "", nil
	}
	return content(body, resp.Header.Get("Content-Type"))
}

// chunk is what is read of an answer or of one event of a stream.
type chunk struct {
	Choices []struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
}

// content is the text of an answer.
func content(body []byte, contentType string) (string, error) {
	if !strings.HasPrefix(contentType, "text/event-stream") {
		var c chunk
		if err := json.Unmarshal(body, &c); err != nil || len(c.Choices) == 0 {
			return "", errors.New("an answer without a choice")
		}
		return c.Choices[0].Message.Content, nil
	}
	var text strings.Builder
	for line := range bytes.Lines(body) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !ok || bytes.Equal(data, []byte("[DONE]")) {
			continue
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return "", fmt.Errorf("an event of a stream: %w", err)
		}
		if len(c.Choices) > 0 {
			text.WriteString(c.Choices[0].Delta.Content)
		}
	}
	return text.String(), nil
}

// report tells the progress until ctx ends.
func (r *runner) report(ctx context.Context, start time.Time) {
	for r.cfg.Progress != nil && (clock.Wall{}).Sleep(ctx, time.Second) == nil {
		p := Progress{
			Sent: int(r.sent.Load()), Done: int(r.done.Load()), Failed: int(r.failed.Load()), Elapsed: r.cfg.Clock.Now().Sub(start),
		}
		r.cfg.Progress(p)
	}
}
