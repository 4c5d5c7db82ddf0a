package cmd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/serve"
	"github.com/eppctl/eppctl/internal/sim"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/tui"
)

// The fleet of --demo: in the time of the wall, with enough traffic to look at.
const (
	demoPods   = 8
	demoBlocks = 4096
	demoRate   = "24" // requests a second
)

// demoSource is a picker of its own, in this process, with a simulated fleet.
type demoSource struct {
	liveSource
	stop    context.CancelFunc
	running sync.WaitGroup
	ended   chan struct{}
	err     error // of the picker; set before ended is closed
}

// startDemo starts the picker on ports that are free, and waits until it is ready.
func startDemo(ctx context.Context, p *program) (*demoSource, error) {
	opts, err := demoOptions(p)
	if err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	opts.Ready = func(a serve.Addresses) { ready <- a.Admin }
	server, err := serve.New(*opts)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	d := &demoSource{stop: stop, ended: make(chan struct{})}
	d.running.Go(func() {
		defer close(d.ended)
		d.err = server.Run(ctx)
	})
	select {
	case address := <-ready:
		if d.client, err = admin.NewClient(address, admin.ClientOptions{}); err != nil {
			d.close()
			return nil, err
		}
		return d, nil
	case <-d.ended:
		stop()
		return nil, errors.Join(d.err, context.Cause(ctx))
	}
}

// Follow implements [tui.Source]; it fails when the simulation does.
func (d *demoSource) Follow(ctx context.Context, pace *tui.Pace, send func(tui.Update)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		select {
		case <-d.ended:
			cancel()
		case <-ctx.Done():
		}
	})
	err := d.liveSource.Follow(ctx, pace, send)
	select {
	case <-d.ended:
		return errors.Join(errors.New("the simulation has ended"), d.err)
	default:
		return err
	}
}

// close ends the picker and waits for it.
func (d *demoSource) close() {
	d.stop()
	d.running.Wait()
	if d.client != nil {
		d.client.Close()
	}
}

func demoOptions(p *program) (*serve.Options, error) {
	cfg := config.Default()
	const free = "127.0.0.1:0"
	cfg.Addresses = config.Addresses{Gateway: free, Health: free, Metrics: free, Admin: free, Report: free}
	cfg.UseProgram(p.weights)
	if err := cfg.Validate(p.custom); err != nil {
		return nil, err
	}
	load, err := serve.ParseLoad(demoRate, 0, 1)
	if err != nil {
		return nil, err
	}
	load.Stay, load.Summary = true, io.Discard
	return &serve.Options{
		Config: cfg, Custom: p.custom, Scorers: p.scorers, Load: load, RecordMemory: 32 << 20,
		Sim: &serve.Sim{
			Pods: demoPods, Blocks: demoBlocks, Speed: 1, Model: sim.DefaultModel, MaxAdapters: 4, Events: true,
			Adapters: []vllm.Adapter{{Name: "fr", Rank: 8}, {Name: "de", Rank: 16}},
		},
		Linger: time.Nanosecond, Drain: 100 * time.Millisecond, MaxBody: 10 << 20, MaxBodies: 100 << 20,
		Logger: slog.New(slog.DiscardHandler), Level: new(slog.LevelVar),
	}, nil
}
