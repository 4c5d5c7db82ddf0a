package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
)

// A pod outlives its server: the server is killed and started again, the name,
// the address and the faults stay.
type pod struct {
	fleet *Fleet
	index int
	name  string
	at    addresses

	answers, reports, events, metrics gate
	hung                              gate // all requests, by FailHang

	mu      sync.Mutex
	ports   *ports  // of the next server; nil when taken
	current *server // nil while down or not running
	faults  faults
	frozen  []byte // the page of metrics, once it is PageFrozen and was asked for
	epoch   uint64
	// restart asks run for a new server; the answer says whether it is up.
	restart chan chan error
	ended   chan struct{} // closed when run has returned
	running bool
}

func newPod(f *Fleet, index int) (*pod, error) {
	const free = "127.0.0.1:0"
	at := addresses{http: free}
	if f.cfg.Address != nil {
		at.http = f.cfg.Address(index)
	}
	if f.cfg.Events {
		at.replay = free
		if f.cfg.EventsTo == "" {
			at.events = free
		}
	}
	ports, err := listen(at)
	if err != nil {
		return nil, err
	}
	return &pod{
		fleet: f, index: index, name: fmt.Sprintf("sim-%d", index),
		at: ports.addresses(), ports: ports, faults: f.faults(),
		restart: make(chan chan error), ended: make(chan struct{}),
	}, nil
}

func (p *pod) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ports == nil {
		return nil
	}
	err := p.ports.close()
	p.ports = nil
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
	if p.ports == nil {
		ports, err := listen(p.at)
		if err != nil {
			return nil, fmt.Errorf("restart %s: %w", p.name, err)
		}
		p.ports = ports
	}
	// Milliseconds of the fleet's clock tell epochs apart also after the whole
	// process started again.
	p.epoch = max(p.epoch+1, uint64(p.fleet.cfg.Clock.Now().UnixMilli()))
	s, err := newServer(p, p.epoch, p.ports)
	if err != nil {
		return nil, err
	}
	p.faults.tell(s.engine)
	p.current, p.ports = s, nil
	return s, nil
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
	i := PodInfo{
		Name: p.name, Address: p.at.http, URL: "http://" + p.at.http, Epoch: p.epoch, State: "up",
		Events: endpoint(p.at.events), Replay: endpoint(p.at.replay),
	}
	if p.fleet.cfg.NoReplays {
		i.Replay = ""
	}
	if p.fleet.cfg.Events {
		i.EventsTo = endpoint(p.fleet.cfg.EventsTo)
	}
	p.mu.Unlock()

	i.DropsReports, i.Slow, i.Health = faults.dropReports, faults.slow, faults.health
	i.LosesEvents, i.DelaysEventsMs = faults.lose, faults.delay.Seconds()*1000
	i.Page, i.GPU = cmp.Or(faults.page, "ok"), faults.gpu
	i.Pressure, i.Thrashes = faults.pressure, faults.thrash
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
	if s.events != nil {
		i.Batches, i.BatchesLost = s.events.progress()
	}
	return i
}

// endpoint is an address as ZeroMQ writes it, "" for none.
func endpoint(hostPort string) string {
	if hostPort == "" {
		return ""
	}
	return "tcp://" + hostPort
}
