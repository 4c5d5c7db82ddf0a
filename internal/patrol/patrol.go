package patrol

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/metricview"
	"github.com/eppctl/eppctl/internal/scrape"
)

const (
	// engineTimeout bounds an engine's page: a round waits for the slowest, and one of
	// many may hang.
	engineTimeout = 2 * time.Second
	// maxAtOnce bounds the pages that are read at the same time.
	maxAtOnce = 64
	// findEvery is how often the pages are found anew, and findTimeout what that may
	// hold up a round.
	findEvery, findTimeout = 10 * time.Second, 2 * time.Second
)

// Engine is a model server.
type Engine struct {
	// Name is the pod's, as the picker calls it; "" when only the address is known.
	Name string
	// URL is that of its page.
	URL string
}

// Pages are what is looked at: one page at least.
type Pages struct {
	// Pickers are the pages of the replicas of one picker.
	Pickers []string
	Engines []Engine
	Left    int // engines that are left out, as there are too many
}

// Config says what to look at.
type Config struct {
	Clock clock.Clock
	Pages
	// Find finds the pages anew as pods come and go, every ten seconds before a look. An
	// error leaves them as they are. Nil = they stay.
	Find func(context.Context) (Pages, error)
	// Token is sent to the pickers as a bearer token, and to nobody else; "" = none.
	Token string
	// Transport reads the pages, where the way to them is another; nil = the usual.
	Transport http.RoundTripper
}

// Patrol makes rounds. It is for one goroutine.
type Patrol struct {
	cfg              Config
	pickers, engines *scrape.Client
	fleet            *fleet
	found            time.Time // when the pages were looked for
}

// New makes a patrol. It does not connect.
func New(cfg Config) *Patrol {
	return &Patrol{
		cfg: cfg, fleet: newFleet(cfg.Pages), found: cfg.Clock.Now(),
		pickers: scrape.NewClient(scrape.Options{Clock: cfg.Clock, Excerpt: true, Token: cfg.Token, Transport: cfg.Transport}),
		engines: scrape.NewClient(scrape.Options{Clock: cfg.Clock, Excerpt: true, Timeout: engineTimeout, Transport: cfg.Transport}),
	}
}

// Close lets idle connections go.
func (p *Patrol) Close() {
	p.pickers.Close()
	p.engines.Close()
}

// Server is where the picker is asked, for people; "" without one.
func (p *Patrol) Server() string { return p.fleet.server() }

// Look makes a round. A page that can't be read is in the snapshot; when that is so
// of the picker, or of all engines where there is none, the error says why. The
// snapshot is nil only when ctx has ended.
func (p *Patrol) Look(ctx context.Context) (*explain.Snapshot, error) {
	p.find(ctx)
	r := round{pickers: make([]answer, len(p.cfg.Pickers)), engines: make([]answer, len(p.cfg.Engines))}
	places := make(chan struct{}, maxAtOnce)
	var all sync.WaitGroup
	read := func(into *answer, client *scrape.Client, url string, check func(*metricview.Page) error) {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			into.page, into.err = client.Read(ctx, url)
			if into.err == nil {
				into.err = check(into.page)
			}
		})
	}
	for i, url := range p.cfg.Pickers {
		read(&r.pickers[i], p.pickers, url, isPicker)
	}
	for i, e := range p.cfg.Engines {
		read(&r.engines[i], p.engines, e.URL, isEngine)
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.at = p.cfg.Clock.Now()
	return p.fleet.see(&r)
}

// find looks for the pages when it is time to.
func (p *Patrol) find(ctx context.Context) {
	now := p.cfg.Clock.Now()
	if p.cfg.Find == nil || now.Sub(p.found) < findEvery {
		return
	}
	p.found = now
	ctx, cancel := context.WithTimeoutCause(ctx, findTimeout, fmt.Errorf("no answer in %s", findTimeout))
	defer cancel()
	pages, err := p.cfg.Find(ctx)
	if p.fleet.lost = err; err == nil {
		p.cfg.Pages = pages
		p.fleet.change(pages)
	}
}

func isPicker(page *metricview.Page) error {
	switch page.Maker() {
	case metricview.Engine:
		return errors.New("that is an engine's page, no picker's: give it with --engines")
	case metricview.Stranger:
		return errors.New("that is no page of a picker")
	case metricview.Eppctl, metricview.LLMD:
	}
	return nil
}

func isEngine(page *metricview.Page) error {
	if page.Engine.Engine == "" {
		return errors.New("that is no page of an engine that is known")
	}
	return nil
}

// reason is why a page could not be read, without its address.
func reason(err error) string {
	if e, ok := errors.AsType[*scrape.Error](err); ok {
		return e.Reason()
	}
	return err.Error()
}

// ParseEngine reads NAME=ADDRESS or ADDRESS, which is a URL or host:port.
func ParseEngine(text string) (Engine, error) {
	var e Engine
	address := strings.TrimSpace(text)
	if name, rest, found := strings.Cut(address, "="); found && !strings.ContainsAny(name, ":/?") {
		if e.Name, address = strings.TrimSpace(name), strings.TrimSpace(rest); e.Name == "" {
			return Engine{}, fmt.Errorf("%q: the name before = is empty", text)
		}
	}
	var err error
	e.URL, err = scrape.URL(address)
	return e, err
}
