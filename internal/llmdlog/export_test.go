package llmdlog

// Open is how much is kept of requests whose end was not read.
func (p *Parser) Open() int { return p.queue.Len() + len(p.open) + max(p.openPods, -p.openPods) }

// Fates is of how many requests it is known how they went.
func (p *Parser) Fates() int { return len(p.fates.byID) }

// The bounds, for tests.
const (
	MaxOpen     = maxOpen
	MaxOpenPods = maxOpenPods
	MaxFates    = maxFates
)
