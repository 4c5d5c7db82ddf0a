package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
)

// Envoy's windows towards an upstream: they never hold up a picker that answers.
const (
	streamWindow = 16 << 20
	connWindow   = 24 << 20
)

// connections are those of Envoy's workers.
type connections struct {
	conns   []*grpc.ClientConn
	clients []service.ExternalProcessorClient
}

func dial(address string, useTLS bool, workers int) (*connections, error) {
	creds := insecure.NewCredentials()
	if useTLS {
		creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	}
	c := &connections{}
	for range workers {
		conn, err := grpc.NewClient("passthrough:///"+address,
			grpc.WithTransportCredentials(creds), grpc.WithDisableServiceConfig(),
			grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow))
		if err != nil {
			c.close()
			return nil, fmt.Errorf("connect to %s: %w", address, err)
		}
		c.conns = append(c.conns, conn)
		c.clients = append(c.clients, service.NewExternalProcessorClient(conn))
	}
	return c, nil
}

// of is the connection of a stream's worker.
func (c *connections) of(stream int) service.ExternalProcessorClient {
	return c.clients[stream%len(c.clients)]
}

func (c *connections) close() {
	for _, conn := range c.conns {
		_ = conn.Close() // it says no more than that it was closed
	}
}

// endTime is how long a picker may take to end.
const endTime = 15 * time.Second

// withPicker starts the picker if the options say how, finds its addresses, and
// ends it when do has returned.
func withPicker(ctx context.Context, o *loadOptions, s *cli.Streams, do func() error) (err error) {
	if len(o.command) > 0 {
		if err := os.Remove(o.addrFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		process, err := start(ctx, s, o.command...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, process.end()) }()
		o.pid = process.cmd.Process.Pid
		if err := process.waitFile(ctx, o.addrFile, o.timeout); err != nil {
			return err
		}
	}
	if o.addrFile != "" {
		if err := o.readAddresses(); err != nil {
			return err
		}
	}
	return do()
}

// readAddresses fills in what the flags leave open.
func (o *loadOptions) readAddresses() error {
	b, err := os.ReadFile(o.addrFile)
	if err != nil {
		return fmt.Errorf("--addr-file: %w", err)
	}
	var a addresses
	if err := json.Unmarshal(b, &a); err != nil {
		return fmt.Errorf("--addr-file %s: %w", o.addrFile, err)
	}
	if o.address == "" {
		o.address = a.Extproc
	}
	if o.metrics == "" {
		o.metrics = a.Metrics
	}
	if o.address == "" {
		return fmt.Errorf("--addr-file %s: no extproc address in it", o.addrFile)
	}
	return nil
}

// process is a program that was started here and has to be ended here.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed with err set
	err   error
}

// start runs a program whose output goes to standard error.
func start(ctx context.Context, s *cli.Streams, command ...string) (*process, error) {
	// Its life is not that of ctx: it is ended with a signal that it can obey.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = s.Err, s.Err
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ctrl-c is ours to pass on
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// waitFile waits until the program has written a file.
func (p *process) waitFile(ctx context.Context, path string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended at once: %w", p.cmd.Path, errors.Join(p.err, errors.New("see its output")))
		default:
		}
		if err := (clock.Wall{}).Sleep(ctx, retryPause); err != nil {
			return fmt.Errorf("%s has not written %s: %w", p.cmd.Path, path, err)
		}
	}
}

// end asks the program to end, and makes it when it does not. How it ended is an
// error only when that was not asked for.
func (p *process) end() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended before its time: %w", p.cmd.Path, errors.Join(p.err, errors.New("see its output")))
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s did not end within %v of SIGTERM", p.cmd.Path, endTime), p.cmd.Process.Kill())
	}
}
