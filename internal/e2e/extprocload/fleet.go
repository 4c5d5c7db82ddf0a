package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/request"
)

const (
	blockSize      = 16              // tokens
	holders        = 4               // pods that hold each prompt's prefix
	reportInterval = 2 * time.Second // as pods have it by default
	reportRetry    = reportInterval / 10
	maxReply       = 4 << 10
)

// pod is one model server of the fleet: a page, a list and a report that never
// change.
type pod struct {
	name     string
	listener net.Listener
	next     report.Report
}

// endpoint is a pod as eppctl reads it from the file of --endpoints.
type endpoint struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type endpointsFile struct {
	Endpoints []endpoint `json:"endpoints"`
}

// readEndpoints are the addresses in such a file.
func readEndpoints(path string) (map[string]bool, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--endpoints-are: %w", err)
	}
	var f endpointsFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("--endpoints-are %s: %w", path, err)
	}
	out := map[string]bool{}
	for _, e := range f.Endpoints {
		out[strings.TrimPrefix(e.URL, "http://")] = true
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--endpoints-are %s: no endpoint in it", path)
	}
	return out, nil
}

// fleet is many pods in one process, which answer /metrics, /health and /v1/models
// with fixed bytes, so that the processors are left to the picker.
type fleet struct {
	pods   []*pod
	url    string // where reports go; "" sends none
	token  string
	client http.Client
}

func runFleet(ctx context.Context, args []string, s *cli.Streams) error {
	f := &fleet{client: http.Client{Timeout: 10 * time.Second}}
	work := workload{bytes: 1 << 10}
	flags := flag.NewFlagSet("extprocload fleet", flag.ContinueOnError)
	pods := flags.Int("pods", 100, "how many")
	endpoints := flags.String("endpoints", "", "write the pods to this file, in the form of eppctl's --endpoints, when they listen")
	reports := flags.String("reports", "", "HOST:PORT that takes status reports; the pods hold the prompts' prefixes, each on 4 of them")
	tokenFile := flags.String("report-token-file", "", "file with the bearer token of reports")
	flags.StringVar(&work.model, "model", "m", "model that they serve")
	flags.Var((*size)(&work.bytes), "body", "SIZE of the prompts' bodies, as of the load")
	flags.IntVar(&work.prompts, "prompts", 16, "prompts, as of the load")
	if done, err := parse(flags, args, s); done {
		return err
	}
	if *pods < 1 {
		return cli.WithHint(fmt.Errorf("--pods: must be 1 or more, got %d", *pods), cli.ExitUsage, "")
	}
	if *reports != "" {
		token, err := os.ReadFile(*tokenFile)
		if err != nil {
			return fmt.Errorf("--report-token-file: %w", err)
		}
		f.url, f.token = "http://"+*reports+"/v1/reports", strings.TrimSpace(string(token))
	}
	defer f.close()
	if err := f.open(*pods, work); err != nil {
		return err
	}
	return f.serve(ctx, work.model, *endpoints)
}

// open makes the pods, which listen then.
func (f *fleet) open(pods int, work workload) error {
	held, err := chains(work)
	if err != nil {
		return err
	}
	epoch := uint64(clock.Wall{}.Now().UnixMilli())
	var listen net.ListenConfig
	for i := range pods {
		ln, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		p := &pod{name: fmt.Sprintf("pod-%d", i), listener: ln}
		f.pods = append(f.pods, p)
		p.next = report.Report{
			Pod: p.name, Epoch: epoch, Full: true, Model: work.model, BlockSize: blockSize,
			QueueDepth: new(i % 3), GPUUtilization: new(.5), Health: new(1.0),
		}
		for n, chain := range held {
			if (i-n%pods+pods)%pods < holders {
				p.next.Chains = append(p.next.Chains, chain)
			}
		}
	}
	return nil
}

// chains are the blocks of each prompt.
func chains(work workload) ([]report.Chain, error) {
	bodies, err := work.bodies()
	if err != nil {
		return nil, err
	}
	root := prefix.Root(work.model, "", "")
	var out []report.Chain
	for _, body := range bodies {
		r, err := request.Parse(chatPath, body, request.Limits{})
		if err != nil {
			return nil, fmt.Errorf("a prompt of our own: %w", err)
		}
		out = append(out, report.Chain{Root: true, Blocks: prefix.Fingerprints(nil, root, r.Tokens, blockSize)})
	}
	return out, nil
}

func (f *fleet) close() {
	for _, p := range f.pods {
		_ = p.listener.Close() // the server has closed it, or never had it
	}
}

func (f *fleet) serve(ctx context.Context, model, path string) error {
	server := &http.Server{Handler: podHandler(model), ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	var file endpointsFile
	for _, p := range f.pods {
		file.Endpoints = append(file.Endpoints, endpoint{p.name, "http://" + p.listener.Addr().String()})
		all.Go(func() {
			if err := server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
				cancel(err)
			}
		})
	}
	all.Go(func() { f.report(ctx) })
	err := writeJSONFile(path, file)
	if err == nil {
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			err = cause
		}
	}
	cancel(nil)
	err = errors.Join(err, server.Close())
	all.Wait()
	return err
}

// page is what a vLLM server that has something to do shows.
const page = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name=%[1]q} 3
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name=%[1]q} 1
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name=%[1]q} 0.25
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="65536"} 1
`

func podHandler(model string) http.Handler {
	metrics := fmt.Appendf(nil, page, model)
	models := fmt.Appendf(nil, `{"object":"list","data":[{"id":%[1]q,"object":"model","root":%[1]q,"max_model_len":1048576}]}`, model)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Write(metrics)
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(models)
	})
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	return mux
}

// report sends every pod's report each interval. A pod whose report was not taken
// sends all it has, soon.
func (f *fleet) report(ctx context.Context) {
	for f.url != "" {
		pause := reportInterval
		for _, p := range f.pods {
			p.next.Seq++
			resync, err := f.post(ctx, p)
			if p.next.Full = err != nil || resync; p.next.Full {
				pause = reportRetry
			}
			if err != nil {
				break // nobody is there yet: the others would fare no better
			}
		}
		if (clock.Wall{}).Sleep(ctx, pause) != nil {
			return
		}
	}
}

func (f *fleet) post(ctx context.Context, p *pod) (resync bool, err error) {
	r := p.next
	r.TakenAt = clock.Wall{}.Now().UTC()
	if !r.Full {
		r.Chains = nil // nothing has changed
	}
	body, err := report.Encode(&r)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+f.token)
	resp, err := f.client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil || resp.StatusCode != http.StatusOK {
		return false, errors.Join(err, fmt.Errorf("HTTP %d", resp.StatusCode))
	}
	var reply report.Reply
	err = json.Unmarshal(answer, &reply)
	return reply.Resync, err
}
