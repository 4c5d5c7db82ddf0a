package pool

import (
	"maps"
	"slices"
)

// ModelEntry is one base model of a configured catalogue.
type ModelEntry struct {
	Name     string   `json:"name"`
	Aliases  []string `json:"aliases,omitempty"`
	Adapters []string `json:"adapters,omitempty"`
}

// Resolution is what a request's model name stands for.
type Resolution struct {
	Base    string // base model
	Adapter string // LoRA adapter; "" when none
	Served  string // the name that the engines know it by
	// Found: the name is in the catalogue. Unchecked: nobody vouches for the name,
	// and it is taken as what it seems to be.
	Found, Unchecked bool
}

// catalogue maps names that clients may ask for. It is immutable.
type catalogue struct {
	names map[string]Resolution
	known bool // some source of names is there
	// configured: the names are the configuration's.
	configured bool
	// bases are the base models that engines of a pool say they serve, each once.
	bases map[string][]string
}

// Resolve looks up a request's model: in the configured catalogue, else in what
// the engines list at /v1/models.
func (p *Pool) Resolve(model string) Resolution {
	c := p.catalogue.Load()
	if r, ok := c.names[model]; ok {
		return r
	}
	return Resolution{Base: model, Served: model, Unchecked: !c.known}
}

// ResolveTarget is [Pool.Resolve] for a name that a rule gives to a request, which
// need not be in the catalogue: where the pools serve one base model alone, it is
// an adapter of that, to be loaded; else a base model. nil is all pools.
func (p *Pool) ResolveTarget(model string, pools []string) Resolution {
	r := p.Resolve(model)
	if r.Found {
		return r
	}
	r.Unchecked = true
	if base, one := p.catalogue.Load().only(pools); one {
		r.Base, r.Adapter = base, model
	}
	return r
}

// only is the one base model of some pools: that their engines list, or when they
// have not yet, that was configured.
func (c *catalogue) only(pools []string) (base string, one bool) {
	add := func(b string) {
		one = base == "" || one && b == base
		base = b
	}
	for name, bases := range c.bases {
		if pools == nil || slices.Contains(pools, name) {
			for _, b := range bases {
				add(b)
			}
		}
	}
	if base == "" && c.configured {
		for _, r := range c.names {
			add(r.Base)
		}
	}
	return base, one
}

// BaseModels are the base models that the catalogue has, by name.
func (p *Pool) BaseModels() []string {
	bases := map[string]bool{}
	for _, r := range p.catalogue.Load().names {
		bases[r.Base] = true
	}
	return slices.Sorted(maps.Keys(bases))
}

// buildCatalogue makes the catalogue anew; the pool's lock is held, or the pool
// not shared yet.
func (p *Pool) buildCatalogue() *catalogue {
	c := &catalogue{names: map[string]Resolution{}, bases: map[string][]string{}}
	c.known, c.configured = len(p.cfg.Models) > 0, len(p.cfg.Models) > 0
	for _, m := range p.cfg.Models {
		c.add(m.Name, Resolution{Base: m.Name, Served: m.Name})
		for _, alias := range m.Aliases {
			c.add(alias, Resolution{Base: m.Name, Served: m.Name})
		}
		for _, adapter := range m.Adapters {
			c.add(adapter, Resolution{Base: m.Name, Adapter: adapter, Served: adapter})
		}
	}
	if c.configured {
		return c
	}
	// Names that share a root are aliases of the first of them, by whatever pod
	// listed it first: engines do not agree on the order.
	first := map[string]string{}
	for _, e := range p.endpoints {
		c.list(e, first)
	}
	return c
}

// list adds what one engine serves. first maps roots to the name of their model.
func (c *catalogue) list(e *endpoint, first map[string]string) {
	for _, m := range e.listed {
		c.known = true
		if m.Parent != "" {
			continue
		}
		base := m.ID
		if r, ok := c.names[m.ID]; ok {
			base = r.Base
		} else if known, ok := first[m.Root]; ok && m.Root != "" {
			base = known
		}
		if m.Root != "" {
			first[m.Root] = base
		}
		c.add(m.ID, Resolution{Base: base, Served: m.ID})
	}
	for _, m := range e.listed {
		if m.Parent != "" {
			c.add(m.ID, Resolution{Base: c.base(m.Parent), Adapter: m.ID, Served: m.ID})
		}
	}
}

// base is the base model that a name stands for; the name itself when it is in
// no catalogue.
func (c *catalogue) base(name string) string {
	if r, ok := c.names[name]; ok {
		return r.Base
	}
	return name
}

// serves are the base models that an engine serves; nil when it has not said.
func (c *catalogue) serves(e *endpoint) []string {
	if e.listed == nil {
		return nil
	}
	bases := []string{}
	for _, m := range e.listed {
		base := c.base(m.ID)
		if m.Parent != "" {
			base = c.base(m.Parent)
		}
		if !slices.Contains(bases, base) {
			bases = append(bases, base)
		}
	}
	return bases
}

// note takes down what an engine's pool serves.
func (c *catalogue) note(e *endpoint) {
	of := c.bases[e.member.Pool]
	for _, base := range e.models {
		if !slices.Contains(of, base) {
			of = append(of, base)
		}
	}
	c.bases[e.member.Pool] = of
}

func (c *catalogue) add(name string, r Resolution) {
	r.Found = true
	if _, taken := c.names[name]; !taken {
		c.names[name] = r
	}
}
