package scrape

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/metricview"
)

// maxAtOnce bounds the pages that are read at the same time.
const maxAtOnce = 16

// Watch reads the pages of the same addresses again and again.
type Watch struct {
	client    *Client
	addresses []string
	last      map[string]*metricview.Page
}

// NewWatch makes a watch of pages.
func (c *Client) NewWatch(addresses []string) *Watch {
	return &Watch{client: c, addresses: addresses, last: map[string]*metricview.Page{}}
}

// Next reads all pages once. In the observation each stands with the page that was
// read before, if there was one; a replica that gives no page now and then is
// among the failed, and begins anew. The error is that of the first replica when
// none gives a page.
func (w *Watch) Next(ctx context.Context) (metricview.Observation, error) {
	pages, errs := w.read(ctx)
	if ctx.Err() != nil {
		return metricview.Observation{}, context.Cause(ctx)
	}
	o := metricview.Observation{Now: w.client.opts.Clock.Now()}
	var first error
	for i, address := range w.addresses {
		if errs[i] != nil {
			if first == nil {
				first = errs[i]
			}
			o.Failed = append(o.Failed, metricview.Failure{Source: address, Error: reason(errs[i])})
			delete(w.last, address)
			continue
		}
		o.Replicas = append(o.Replicas, metricview.Replica{Before: w.last[address], After: pages[i]})
		w.last[address] = pages[i]
	}
	if len(o.Replicas) == 0 {
		return o, first
	}
	return alike(o), nil
}

// alike sets replicas aside that have a first page where others have a second:
// what one counts since its start can't be added to what others count since.
func alike(o metricview.Observation) metricview.Observation {
	if !slices.ContainsFunc(o.Replicas, func(r metricview.Replica) bool { return r.Before != nil }) {
		return o
	}
	o.Replicas = slices.DeleteFunc(o.Replicas, func(r metricview.Replica) bool {
		if r.Before != nil {
			return false
		}
		o.Failed = append(o.Failed, metricview.Failure{Source: r.After.Source, Error: "this was its first page, and rates need two"})
		return true
	})
	return o
}

func reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason()
	}
	return err.Error()
}

// read reads all pages, a few at once, and waits for all.
func (w *Watch) read(ctx context.Context) ([]*metricview.Page, []error) {
	pages, errs := make([]*metricview.Page, len(w.addresses)), make([]error, len(w.addresses))
	places := make(chan struct{}, maxAtOnce)
	var all sync.WaitGroup
	for i, address := range w.addresses {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			pages[i], errs[i] = w.client.Read(ctx, address)
		})
	}
	all.Wait()
	return pages, errs
}

// Wait lets d pass, and tells how much has passed about once a second.
func (c *Client) Wait(ctx context.Context, d time.Duration, tell func(passed time.Duration)) error {
	start := c.opts.Clock.Now()
	for {
		passed := c.opts.Clock.Now().Sub(start)
		if passed >= d {
			return nil
		}
		tell(passed)
		if err := c.opts.Clock.Sleep(ctx, min(time.Second, d-passed)); err != nil {
			return err
		}
	}
}
