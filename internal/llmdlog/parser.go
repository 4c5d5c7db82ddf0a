package llmdlog

import (
	"bytes"
	"container/list"
	"encoding/json"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// The bounds of what is kept, whatever the log holds.
const (
	maxLine      = 8 << 20 // bytes of a line: 500 pods take 0.4 MB
	maxPods      = 4096    // candidates of one profile run
	maxScorers   = 64
	maxRuns      = 16      // profile runs of one request
	maxOpen      = 4096    // requests whose end has not come yet
	maxOpenPods  = 1 << 16 // candidates of all of these
	maxFates     = 1 << 16 // requests of which it is known how they went
	maxProcesses = 64
	maxName      = 256  // bytes of a plugin's, pod's or model's name
	maxID        = 512  // bytes of a request ID
	maxEndpoints = 4096 // bytes of the endpoints that one was sent to

	// A request without an end is given up after so long: cancelled ones have none.
	patience = 15 * time.Minute
)

// Options say how a log is read.
type Options struct {
	// Weights of scorers, by name or type ("queue-scorer": 2). Without them they are
	// taken from the log's configuration lines, or solved from the totals, or else
	// assumed to be the defaults; the record says which.
	Weights map[string]float64
}

// Stats count what was read.
type Stats struct {
	Lines     int // all lines
	Skipped   int // lines of other programs, and blank ones
	Malformed int // lines of the log that can't be read, such as truncated ones
	Restarts  int // starts of a picker that was known already
	Records   int // records that were made
	Torn      int // decisions that were left out, since scores of them are missing
	Doubled   int // lines that are the one before once more; they are read once
	Read      int // lines that something was read of
	Backwards int // of these, lines that are older than the one before
	// Level is the log level (-v) of the picker that wrote last, 0 when not known:
	// as it said at its start, else as its lines tell.
	Level int
}

// Parser reads the lines of a log. It is not safe for concurrent use.
type Parser struct {
	opt       Options
	stats     Stats
	processes map[string]*process
	last      *process
	before    []byte    // the line before, of those that are read
	at        time.Time // its time

	open     map[string]*list.Element // requests by process and ID
	queue    list.List                // the same, in the order in which they began
	openPods int
	fates    fates
	ready    []*explain.Record
}

// New makes a parser of one log.
func New(opt Options) *Parser {
	return &Parser{
		opt: opt, processes: map[string]*process{}, open: map[string]*list.Element{},
		fates: fates{byID: map[string]fate{}},
	}
}

// Line takes the next line, whole and without its line break. It reports whether that
// can be read, as all can be that are none of the log.
func (p *Parser) Line(line []byte) (ok bool) {
	p.stats.Lines++
	source, body := strip(line)
	msg, ok := messageOf(body)
	if !ok {
		p.stats.Skipped++
		return true
	}
	m, known := messages[string(msg)]
	if !known {
		return true
	}
	if bytes.Equal(line, p.before) {
		p.stats.Doubled++
		return true
	}
	p.before = append(p.before[:0], line...)
	e := entry{}
	if len(body) > maxLine || json.Unmarshal(body, &e) != nil || !e.valid() {
		p.stats.Malformed++
		return false
	}
	if p.stats.Read++; e.at.Before(p.at) {
		p.stats.Backwards++
	}
	p.at = e.at
	proc := p.process(source)
	proc.seen = max(proc.seen, m.level)
	m.handle(p, proc, &e)
	return true
}

// process finds the process that a prefix stands for. Beyond the bound the rest
// share one, whose requests are told apart by their IDs alone.
func (p *Parser) process(source string) *process {
	if p.processes[source] == nil && len(p.processes) >= maxProcesses {
		source = ""
	}
	proc := p.processes[source]
	if proc == nil {
		proc = newProcess(source)
		p.processes[source] = proc
	}
	p.last = proc
	return proc
}

// Take returns the records that were completed since the last call: those of
// requests whose end the log tells, and of those that were given up.
func (p *Parser) Take() []*explain.Record {
	out := p.ready
	p.ready = nil
	return out
}

// Close ends the log and returns the records that are left: those of requests that
// were picked for and whose end was not read.
func (p *Parser) Close() []*explain.Record {
	for p.queue.Len() > 0 {
		p.close(p.queue.Front().Value.(*request))
	}
	for _, proc := range p.processes {
		p.settle(proc)
	}
	return p.Take()
}

// Disordered reports whether the lines do not follow each other in time, as in a log
// that was exported newest first: hardly a decision can be read of it then.
func (s *Stats) Disordered() bool { return 2*s.Backwards > s.Read }

// Stats tells what was read so far.
func (p *Parser) Stats() Stats {
	s := p.stats
	if p.last != nil {
		s.Level = p.last.verbosity()
	}
	return s
}
