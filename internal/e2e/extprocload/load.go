package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/eppctl/eppctl/internal/cli"
)

// loadOptions are the flags of a load.
type loadOptions struct {
	address, metrics, addrFile string
	tls                        bool
	pid, workers, streams      int
	requests, warmup           int
	work                       workload
	piece                      size
	endpoints, response        string
	settle, timeout            time.Duration
	hold                       int
	holdFor                    time.Duration
	command                    []string // that starts the picker
}

func loadFlags(o *loadOptions) *flag.FlagSet {
	f := flag.NewFlagSet("extprocload", flag.ContinueOnError)
	f.StringVar(&o.address, "addr", "", "HOST:PORT of the picker's ext_proc server")
	f.StringVar(&o.metrics, "metrics", "", "HOST:PORT of the picker's /metrics page, for heap and allocations")
	f.StringVar(&o.addrFile, "addr-file", "", "JSON file with both addresses, which the picker writes when it is ready")
	f.BoolVar(&o.tls, "tls", false, "use TLS, without verifying the picker's certificate")
	f.IntVar(&o.pid, "pid", 0, "the picker's process, for CPU time and memory; known when it is started here")
	f.IntVar(&o.workers, "workers", 2, "gRPC connections: Envoy has one for each of its workers")
	f.IntVar(&o.streams, "streams", 1, "requests that are open at once")
	f.IntVar(&o.requests, "requests", 20_000, "requests that are measured")
	f.IntVar(&o.warmup, "warmup", 0, "requests before them that are not (default a tenth)")
	o.work.bytes = 1 << 10
	f.Var((*size)(&o.work.bytes), "body", "SIZE of a request's body: 1KB, 32KB, 400KB")
	f.IntVar(&o.work.prompts, "prompts", 16, "prompts that differ; they are sent in turn, so that prefixes are warm")
	f.StringVar(&o.work.model, "model", "m", "model that is asked for")
	o.piece = 1 << 20
	f.Var(&o.piece, "piece", "SIZE of the longest piece of a body (1MB is Envoy's listener buffer)")
	f.StringVar(&o.endpoints, "endpoints-are", "", "file with the endpoints that may be picked, as the fleet writes it")
	f.StringVar(&o.response, "response", "json", "what the picker sees of the answer: json (all of it) or none")
	f.DurationVar(&o.settle, "settle", 0, "time between the picker's first answer and the load; its idle CPU is measured in it")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "time for one request, and for the picker to be ready")
	f.IntVar(&o.hold, "hold", 0, "send half of the body on so many streams and no more, and measure memory")
	f.DurationVar(&o.holdFor, "hold-for", 3*time.Second, "how long they are held")
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "usage: extprocload [flags] [-- COMMAND…]   COMMAND starts the picker, which writes --addr-file\n"+
			"       extprocload noop|fleet|bench [flags]\n\nflags:")
		f.PrintDefaults()
	}
	return f
}

func runLoad(ctx context.Context, args []string, s *cli.Streams) error {
	var o loadOptions
	flags := loadFlags(&o)
	if done, err := parse(flags, args, s); done {
		return err
	}
	o.command = flags.Args()
	if err := o.validate(); err != nil {
		return cli.WithHint(err, cli.ExitUsage, "see extprocload -h")
	}
	var out any
	err := withPicker(ctx, &o, s, func() (err error) {
		if o.hold > 0 {
			out, err = holdBodies(ctx, &o)
		} else {
			out, err = measure(ctx, &o)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := cli.WriteJSONLine(s.Out, out); err != nil {
		return err
	}
	if r, ok := out.(*result); ok && r.Errors > 0 {
		return cli.WithHint(fmt.Errorf("%d of %d requests failed; first: %s", r.Errors, r.Requests, r.FirstError), cli.ExitFindings, "")
	}
	return nil
}

func (o *loadOptions) validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(len(o.command) > 0 && o.addrFile == "", "-- COMMAND needs --addr-file, to know where the picker listens")
	refuse(len(o.command) > 0 && o.pid != 0, "--pid: the picker that COMMAND starts has its own")
	refuse(o.address == "" && o.addrFile == "", "--addr or --addr-file: where is the picker?")
	refuse(o.workers < 1, "--workers: must be 1 or more, got %d", o.workers)
	refuse(o.streams < 1, "--streams: must be 1 or more, got %d", o.streams)
	refuse(o.requests < 1, "--requests: must be 1 or more, got %d", o.requests)
	refuse(o.warmup < 0, "--warmup: must be 0 or more, got %d", o.warmup)
	refuse(o.hold < 0, "--hold: must be 0 or more, got %d", o.hold)
	refuse(o.response != "json" && o.response != "none", "--response: must be json or none, got %q", o.response)
	if o.warmup == 0 {
		o.warmup = max(o.requests/10, 1)
	}
	return errors.Join(errs...)
}

// load is a run with all that it needs.
type load struct {
	o         *loadOptions
	pickers   *connections
	calls     []*call
	endpoints map[string]bool // that may be picked; nil: any
	picker    meter
	client    meter
}

func newLoad(o *loadOptions) (*load, error) {
	bodies, err := o.work.bodies()
	if err != nil {
		return nil, cli.WithHint(err, cli.ExitUsage, "see extprocload -h")
	}
	l := &load{o: o, picker: meter{pid: o.pid, page: o.metrics}, client: meter{pid: os.Getpid()}}
	answer := o.work.answer()
	for _, body := range bodies {
		c := &call{body: body, pieces: requestBody(body, int(o.piece))}
		if o.response == "json" {
			c.answer, c.answers = answer, responseBody(answer, int(o.piece))
		}
		l.calls = append(l.calls, c)
	}
	if o.endpoints != "" {
		if l.endpoints, err = readEndpoints(o.endpoints); err != nil {
			return nil, err
		}
	}
	l.pickers, err = dial(o.address, o.tls, o.workers)
	return l, err
}

// measure waits for the picker, warms it up, and loads it.
func measure(ctx context.Context, o *loadOptions) (*result, error) {
	l, err := newLoad(o)
	if err != nil {
		return nil, err
	}
	defer l.pickers.close()
	if err := l.waitReady(ctx); err != nil {
		return nil, err
	}
	idle, err := l.settle(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := l.run(ctx, o.warmup); err != nil {
		return nil, err
	}
	if err := errors.Join(l.picker.start(ctx), l.client.start(ctx)); err != nil {
		return nil, err
	}
	seen, err := l.run(ctx, o.requests)
	if err != nil {
		return nil, err
	}
	r := l.result(seen)
	if r.Picker, err = l.picker.stop(ctx, o.requests); err != nil {
		return nil, fmt.Errorf("the picker after the load: %w", err)
	}
	r.Picker.IdleCPUMsPerSecond = idle
	r.Client, err = l.client.stop(ctx, o.requests)
	return r, err
}
