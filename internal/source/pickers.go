package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/record"
)

// Pickers are the admin APIs of one or several pickers, which are asked all at
// once. One that does not answer is worth a warning while another does.
type Pickers struct {
	clients []*admin.Client
	opts    Options
}

// NewPickers asks these. They stay the caller's to close.
func NewPickers(clients []*admin.Client, opts Options) *Pickers { return &Pickers{clients, opts} }

// Parts are the pickers one by one, for [Watch].
func (p *Pickers) Parts(context.Context) (parts []Part, err error) {
	for _, client := range p.clients {
		parts = append(parts, Part{client.Server(), &Pickers{[]*admin.Client{client}, p.opts}})
	}
	return parts, nil
}

// Find implements [Source]. Errors are those of [admin.Client], of the picker that
// tells most; that none of several has it is a [*NowhereError].
func (p *Pickers) Find(ctx context.Context, id string, nth int) (Found, error) {
	if len(p.clients) == 1 {
		found, err := p.clients[0].Decision(ctx, id, nth)
		if err != nil {
			return Found{}, err
		}
		return Found{Record: found.Item, Count: found.Count}, nil
	}
	found, err := p.ask(ctx, id)
	if err != nil || len(found) == 0 {
		return Found{}, err
	}
	out := Found{}
	for i := range found {
		out.Count += found[i].Count
	}
	if id == record.Latest {
		out.Count = 1
	}
	for taken := 1; ; taken++ {
		at := newestOf(found)
		if at < 0 {
			return Found{}, &MissingError{MissingError: &record.MissingError{ID: id}, Name: fmt.Sprintf("number %d of %d", nth, out.Count)}
		}
		hit := &found[at]
		if taken >= nth {
			out.Record, out.Where = hit.Item, hit.client.Server()
			return out, nil
		}
		if err := hit.next(ctx, id); err != nil {
			return Found{}, err
		}
	}
}

// hit is what one picker knows of an ID: the nth newest decision of its own.
type hit struct {
	admin.DecisionLookup
	client *admin.Client
	nth    int
}

func (h *hit) next(ctx context.Context, id string) error {
	if h.nth++; h.nth > h.Count {
		h.Item = nil
		return nil
	}
	found, err := h.client.Decision(ctx, id, h.nth)
	if err == nil {
		h.Item = found.Item
	}
	return err
}

// newestOf is the hit with the newest decision; −1 when none is left.
func newestOf(hits []hit) int {
	at := -1
	for i := range hits {
		if hits[i].Item != nil && (at < 0 || hits[i].Item.Time.After(hits[at].Item.Time)) {
			at = i
		}
	}
	return at
}

// ask asks all for the newest decision of an ID. Those that have it whole push
// aside those where others only begin so.
func (p *Pickers) ask(ctx context.Context, id string) ([]hit, error) {
	answers, errs := make([]*admin.DecisionLookup, len(p.clients)), make([]error, len(p.clients))
	all := p.together(ctx)
	defer all.stop()
	var wg sync.WaitGroup
	for i, client := range p.clients {
		wg.Go(func() {
			answers[i], errs[i] = client.Decision(all.ctx[i], id, 1)
			if !unreachable(errs[i]) {
				all.answered(i)
			}
		})
	}
	wg.Wait()
	var exact, begins []hit
	for i, a := range answers {
		switch {
		case errs[i] != nil:
		case id == record.Latest || a.Item.RequestID == id || a.Item.DecisionID == id:
			exact = append(exact, hit{*a, p.clients[i], 1})
		default:
			begins = append(begins, hit{*a, p.clients[i], 1})
		}
	}
	if len(exact) > 0 {
		p.warn(errs)
		return exact, nil
	}
	if err := ambiguous(id, begins, errs); err != nil {
		return nil, err
	}
	if len(begins) > 0 {
		p.warn(errs)
		return begins, nil
	}
	return nil, p.nowhere(errs)
}

// NowhereError says that none of several pickers has a decision, as far as they answer.
type NowhereError struct {
	*admin.NotFoundError
	Reaches     []string // how far back each knows decisions, in words
	Asked, Deaf int      // pickers, and those of them that did not answer
}

// Error implements error.
func (e *NowhereError) Error() string {
	if e.Deaf > 0 {
		return fmt.Sprintf("%v, as far as %d of %d pickers answer", e.NotFoundError, e.Asked-e.Deaf, e.Asked)
	}
	return fmt.Sprintf("%v by any of %d pickers", e.NotFoundError, e.Asked)
}

// Unwrap returns what one of them said.
func (e *NowhereError) Unwrap() error { return e.NotFoundError }

// nowhere is the error when no picker has what is looked for.
func (p *Pickers) nowhere(errs []error) error {
	err := p.worst(errs)
	first, absent := errors.AsType[*admin.NotFoundError](err)
	if !absent {
		return err
	}
	e := &NowhereError{NotFoundError: first, Asked: len(errs)}
	for i, err := range errs {
		if answered, ok := errors.AsType[*admin.NotFoundError](err); ok {
			e.Reaches = append(e.Reaches, p.clients[i].Server()+": "+answered.Reach())
		} else {
			e.Deaf++
		}
	}
	return e
}

// ambiguous is the error when several requests have an ID that begins so.
func ambiguous(id string, begins []hit, errs []error) error {
	var names []string
	for i := range begins {
		names = append(names, begins[i].Item.RequestID)
	}
	for _, err := range errs {
		if e, ok := errors.AsType[*admin.AmbiguousError](err); ok {
			for _, c := range e.Candidates {
				names = append(names, c.RequestID)
			}
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > 1 {
		return &record.AmbiguousError{ID: id, Candidates: names}
	}
	return nil
}

// worst is the error that tells most: that a picker has no such decision, else
// what it refused, else that none answered. The others are warned of.
func (p *Pickers) worst(errs []error) error {
	at := 0
	for i, err := range errs {
		if _, answered := errors.AsType[*admin.NotFoundError](err); answered {
			at = i
			break
		}
		if unreachable(errs[at]) && !unreachable(err) {
			at = i
		}
	}
	rest := slices.Clone(errs)
	rest[at] = nil
	p.warn(rest)
	return errs[at]
}

func unreachable(err error) bool {
	_, ok := errors.AsType[*admin.UnreachableError](err)
	return ok
}

// warn tells of pickers that could not answer. That one has no such decision is no
// news while another has.
func (p *Pickers) warn(errs []error) {
	for _, err := range errs {
		_, absent := errors.AsType[*admin.NotFoundError](err)
		if err != nil && !absent && !errors.Is(err, context.Canceled) {
			p.opts.warn("%v", err)
		}
	}
}

// Each implements [Source]: the lists of all pickers, merged by time.
func (p *Pickers) Each(ctx context.Context, want Want, visit func(*explain.Record) error) (more bool, err error) {
	limit := want.Limit
	if want.Limit++; limit == 0 || want.Limit > admin.MaxLimit {
		want.Limit = 0 // what is sent line by line has no limit; one more shows that there are more
	}
	ctx, cancel := context.WithCancel(ctx)
	lists, errs := make([]stream, len(p.clients)), make([]error, len(p.clients))
	all := p.together(ctx)
	defer all.stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i, client := range p.clients {
		lists[i].next = make(chan *explain.Record)
		wg.Go(func() {
			defer close(lists[i].next)
			errs[i] = lists[i].fill(all.ctx[i], client, want.Filter, func() { all.answered(i) })
		})
	}
	visited, last := 0, ""
	for rec := newestHead(lists); rec != nil; rec = newestHead(lists) {
		if rec.DecisionID == last {
			continue // two addresses of one picker
		}
		if limit > 0 && visited == limit {
			cancel()
			wg.Wait()
			p.warn(errs)
			return true, nil
		}
		if err := visit(rec); err != nil {
			return false, err
		}
		visited, last = visited+1, rec.DecisionID
	}
	wg.Wait()
	if slices.Contains(errs, nil) && ctx.Err() == nil {
		p.warn(errs)
		return false, nil
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return false, p.worst(errs)
}

// stream is what one picker sends.
type stream struct {
	next chan *explain.Record
	head *explain.Record
}

// fill sends on what a picker lists; answered is called when it has begun to.
func (s *stream) fill(ctx context.Context, client *admin.Client, f admin.Filter, answered func()) error {
	err := client.Walk(ctx, f, func(rec *explain.Record) error {
		answered()
		select {
		case s.next <- rec:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err == nil {
		answered()
	}
	return err
}

// newestHead takes the newest of what all lists have next; nil at their end. It
// waits for each.
func newestHead(lists []stream) *explain.Record {
	at := -1
	for i := range lists {
		if lists[i].head == nil {
			lists[i].head = <-lists[i].next
		}
		if lists[i].head != nil && (at < 0 || lists[i].head.Time.After(lists[at].head.Time)) {
			at = i
		}
	}
	if at < 0 {
		return nil
	}
	rec := lists[at].head
	lists[at].head = nil
	return rec
}
