package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/eppctl/eppctl/internal/cli"
)

// settleTime is how long our picker may take to hear all of the fleet's reports;
// its idle CPU is measured in the second half.
const settleTime = 4 * time.Second

// bench runs pickers and loads.
type bench struct {
	dir     string // of all files
	self    string // this program
	eppctl  string
	reports string // address for status reports, the same in all runs
	pods    int
	streams *cli.Streams
}

// pair is one run of each picker with the same work.
type pair struct{ ours, noop *result }

// newBench makes a bench for an eppctl; "" has to be built.
func newBench(ctx context.Context, dir, eppctl string, s *cli.Streams) (*bench, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, self: self, eppctl: eppctl, pods: 100, streams: s}
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b.reports = ln.Addr().String()
	return b, errors.Join(ln.Close(), os.WriteFile(b.file("token"), []byte(rand.Text()+"\n"), 0o600))
}

func (b *bench) build(ctx context.Context) error {
	b.eppctl = b.file("eppctl")
	build := exec.CommandContext(ctx, "go", "build", "-o", b.eppctl, ".")
	build.Stdout, build.Stderr = b.streams.Err, b.streams.Err
	if err := build.Run(); err != nil {
		return fmt.Errorf("build eppctl: %w", err)
	}
	return nil
}

func (b *bench) file(name string) string { return filepath.Join(b.dir, name) }

// oursConfig: the fleet has no tokeniser, and what is compared is the picker.
const oursConfig = "tokens: {source: approximate}\nevents: {enabled: false}\n"

// ours runs a load on eppctl in front of the fleet.
func (b *bench) ours(ctx context.Context, work workload, args []string, into any) (err error) {
	if err := os.Remove(b.file("endpoints")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fleet, err := start(ctx, b.streams, append([]string{
		b.self, "fleet", "--pods", strconv.Itoa(b.pods), "--endpoints", b.file("endpoints"),
		"--reports", b.reports, "--report-token-file", b.file("token"),
	}, work.flags()...)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.end()) }()
	if err := fleet.waitFile(ctx, b.file("endpoints"), time.Minute); err != nil {
		return err
	}
	if err := os.WriteFile(b.file("config.yaml"), []byte(oursConfig), 0o600); err != nil {
		return err
	}
	args = append(args, "--endpoints-are", b.file("endpoints"), "--settle", settleTime.String())
	return b.load(ctx, work, args, into,
		b.eppctl, "serve", "--config", b.file("config.yaml"), "--endpoints", b.file("endpoints"), "--report-token-file", b.file("token"), "--report-addr", b.reports,
		"--extproc-addr", "127.0.0.1:0", "--plaintext", "--gateway-addr", "", "--health-addr", "127.0.0.1:0",
		"--metrics-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--drain", "1s", "--log-level", "warn",
		"--addr-file", b.file("addresses"))
}

// noop runs a load on the picker that does nothing.
func (b *bench) noop(ctx context.Context, work workload, args []string, into any) error {
	return b.load(ctx, work, args, into, b.self, "noop", "--addr-file", b.file("addresses"))
}

func (w workload) flags() []string {
	return []string{"--model", w.model, "--body", strconv.Itoa(w.bytes), "--prompts", strconv.Itoa(w.prompts)}
}

// load runs the load in a process of its own, which starts and ends the picker,
// and reads what it prints.
func (b *bench) load(ctx context.Context, work workload, args []string, into any, picker ...string) error {
	args = append(append(append(work.flags(), "--addr-file", b.file("addresses")), args...), "--")
	load := exec.CommandContext(ctx, b.self, append(args, picker...)...)
	// A signal that it can obey: it has a picker to end itself.
	load.Cancel = func() error { return load.Process.Signal(os.Interrupt) }
	load.WaitDelay = 2 * endTime
	var out bytes.Buffer
	load.Stdout, load.Stderr = &out, b.streams.Err
	if err := load.Run(); err != nil {
		return fmt.Errorf("load on %s: %w", filepath.Base(picker[0]), err)
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("what the load printed: %w", err)
	}
	return nil
}

// pairs runs a row: ours, the no-op picker, ours, …
func (b *bench) pairs(ctx context.Context, r *row, count int, scale float64, itself bool) ([]pair, error) {
	args := []string{"--streams", strconv.Itoa(r.streams), "--requests", strconv.Itoa(max(int(float64(r.requests)*scale), 10))}
	ours := b.ours
	if itself {
		ours = b.noop
	}
	var out []pair
	for n := range count {
		fmt.Fprintf(b.streams.Err, "%s: pair %d of %d\n", r.name, n+1, count)
		p := pair{ours: &result{}, noop: &result{}}
		if err := ours(ctx, r.work, args, p.ours); err != nil {
			return nil, fmt.Errorf("%s: ours: %w", r.name, err)
		}
		if err := b.noop(ctx, r.work, args, p.noop); err != nil {
			return nil, fmt.Errorf("%s: no-op: %w", r.name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// held measures the memory of unfinished bodies in our picker.
func (b *bench) held(ctx context.Context, streams int) (*held, error) {
	fmt.Fprintf(b.streams.Err, "%d streams with half a body\n", streams)
	h := &held{}
	work := workload{model: benchModel, bytes: holdBytes, prompts: 16}
	return h, b.ours(ctx, work, []string{"--hold", strconv.Itoa(streams)}, h)
}
