package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// A pod outlives its server: the server is killed and started again, the name,
// the address and the faults stay.
type pod struct {
	fleet   *Fleet
	index   int
	name    string
	address string

	answers, reports, metrics gate

	mu       sync.Mutex
	listener net.Listener // of the next server; nil when taken
	current  *server      // nil while down or not running
	faults   faults
	epoch    uint64
	// restart asks run for a new server; the answer says whether it is up.
	restart chan chan error
	ended   chan struct{} // closed when run has returned
	running bool
}

func newPod(f *Fleet, index int) (*pod, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // binding to loopback does not block
	if err != nil {
		return nil, err
	}
	return &pod{
		fleet: f, index: index, name: fmt.Sprintf("sim-%d", index),
		address: l.Addr().String(), listener: l, faults: noFaults(),
		restart: make(chan chan error), ended: make(chan struct{}),
	}, nil
}

func (p *pod) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return nil
	}
	err := p.listener.Close()
	p.listener = nil
	return err
}

// run keeps a server running, except after a kill.
func (p *pod) run(ctx context.Context) error {
	p.mu.Lock()
	p.running = true
	p.mu.Unlock()
	defer close(p.ended)
	s, err := p.open()
	if err != nil {
		return err
	}
	for {
		if s != nil {
			s.run(ctx)
			p.closed()
		}
		select {
		case <-ctx.Done():
			return p.close()
		case reply := <-p.restart:
			s, err = p.open()
			reply <- err // an address that is taken: down until the next try
		}
	}
}

// open makes a server with a new engine, listening again where it listened before.
func (p *pod) open() (*server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		l, err := net.Listen("tcp", p.address) //nolint:noctx // binding to loopback does not block
		if err != nil {
			return nil, fmt.Errorf("restart %s: %w", p.name, err)
		}
		p.listener = l
	}
	engine, err := vllm.New(p.fleet.engine)
	if err != nil {
		return nil, err
	}
	engine.SetSlow(p.faults.slow)
	// Milliseconds of the fleet's clock tell epochs apart also after the whole
	// process started again.
	p.epoch = max(p.epoch+1, uint64(p.fleet.cfg.Clock.Now().UnixMilli()))
	p.current = newServer(p, engine, p.epoch, p.listener)
	p.listener = nil
	return p.current, nil
}

func (p *pod) closed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = nil
}

// server is the running server, nil when there is none.
func (p *pod) server() *server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

var errKilled = errors.New("the pod was killed")

// kill ends the server and waits until nothing of it is left.
func (p *pod) kill() {
	if s := p.server(); s != nil {
		s.kill(errKilled)
		<-s.gone
	}
}

// start asks for a new server and waits until it listens.
func (p *pod) start() error {
	p.mu.Lock()
	running := p.running
	p.mu.Unlock()
	if !running {
		return errors.New("the fleet is not running yet")
	}
	p.kill()
	reply := make(chan error, 1)
	select {
	case p.restart <- reply:
		return <-reply
	case <-p.ended:
		return errors.New("the fleet has ended")
	}
}

func (p *pod) info() PodInfo {
	p.mu.Lock()
	s, faults := p.current, p.faults
	i := PodInfo{Name: p.name, Address: p.address, URL: "http://" + p.address, Epoch: p.epoch, State: "up"}
	p.mu.Unlock()

	i.DropsReports, i.Slow, i.Health = faults.dropReports, faults.slow, faults.health
	i.Held = p.held()
	switch {
	case s == nil:
		i.State = "down"
		return i
	case faults.failing != "":
		i.State = "failing"
	}
	stats := s.stats()
	i.Running, i.Waiting = stats.Running, stats.Waiting
	i.Blocks, i.BlocksHeld, i.BlocksCached = stats.Blocks, stats.Held, stats.Cached
	i.LoadedAdapters = stats.LoadedAdapters
	i.ReportSeq, i.ReportSeqAcked = s.reports.seqs()
	return i
}
