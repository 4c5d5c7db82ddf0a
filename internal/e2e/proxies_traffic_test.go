package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	loadgen "github.com/eppctl/eppctl/internal/load"
	"github.com/eppctl/eppctl/internal/sim"
	"github.com/eppctl/eppctl/internal/simulate"
)

// A sending is what came of a trace that went through a proxy.
type sending struct {
	mu             sync.Mutex
	prompt, cached int             // tokens
	first          []time.Duration // to the first token, of the wall's time
	failures       int
	err            error // of the first of them
}

// sendTrace sends the requests as they arrive, through a proxy in front of pods of its
// own.
func sendTrace(t *testing.T, p *peer, trace *simulate.Trace) *sending {
	t.Helper()
	fleet := startFleet(t)
	base, client := p.start(t, p.method, fleet), newClients(t).h1
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s := &sending{}
	var requests sync.WaitGroup
	began := time.Now()
	for i := range trace.Requests {
		q := &trace.Requests[i]
		body := bodyOf(t, q)
		time.Sleep(time.Until(began.Add(q.At / proxySpeed)))
		requests.Go(func() { s.add(askFor(ctx, client, base, q, body)) })
	}
	requests.Wait()
	return s
}

// bodyOf is a request as clients send it: its prompt in token ids, and for a stream.
func bodyOf(t *testing.T, q *simulate.Request) []byte {
	t.Helper()
	tokens, start := make([]uint32, 0, q.Input()), 0
	for _, piece := range q.Prompt {
		for i := range piece.End - start {
			tokens = append(tokens, loadgen.Token(piece.ID, i))
		}
		start = piece.End
	}
	body, err := json.Marshal(map[string]any{
		"model": sim.DefaultModel, "prompt": tokens, "max_tokens": q.Output, "ignore_eos": true,
		"stream": true, "stream_options": map[string]bool{"include_usage": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// A reception is what one client got.
type reception struct {
	first          time.Duration
	prompt, cached int
	err            error
}

// askFor sends a request and reads its answer.
func askFor(ctx context.Context, client *http.Client, base string, q *simulate.Request, body []byte) (r reception) {
	url := fmt.Sprintf("%s%s?app=%x", base, completions, q.URI)
	if q.Spelling != 0 {
		url += fmt.Sprintf("&v=%x", q.Spelling)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return reception{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-User", fmt.Sprintf("%x", q.Session))
	began := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return reception{err: err}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 200))
		return reception{err: fmt.Errorf("%s: %s", res.Status, text)}
	}
	r.err = r.read(res.Body, began)
	return r
}

// read takes a stream in. Its last chunk has the usage.
func (r *reception) read(body io.Reader, began time.Time) error {
	ended := false
	for lines := bufio.NewScanner(body); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil || ended && r.prompt > 0 {
				return err
			}
			return io.ErrUnexpectedEOF
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if ok && r.first == 0 {
			r.first = time.Since(began)
		}
		ended = ended || data == "[DONE]"
		if !strings.Contains(data, `"usage":{`) {
			continue
		}
		var chunk struct {
			Usage struct {
				Prompt  int `json:"prompt_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return err
		}
		r.prompt, r.cached = chunk.Usage.Prompt, chunk.Usage.Details.Cached
	}
}

func (s *sending) add(r reception) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.err != nil {
		if s.failures++; s.err == nil {
			s.err = r.err
		}
		return
	}
	s.prompt += r.prompt
	s.cached += r.cached
	s.first = append(s.first, r.first)
}

// hit is the share of the prompts' tokens that engines found in their caches.
func (s *sending) hit() float64 { return float64(s.cached) / float64(max(1, s.prompt)) }

// quantile is one of the times to the first token, in simulated seconds, by nearest
// rank; not a number when there is none.
func (s *sending) quantile(share float64) float64 {
	if len(s.first) == 0 {
		return math.NaN()
	}
	slices.Sort(s.first)
	return s.first[max(0, int(math.Ceil(share*float64(len(s.first))))-1)].Seconds() * proxySpeed
}
