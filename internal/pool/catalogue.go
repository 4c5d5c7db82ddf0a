package pool

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
	// Found: the name is in the catalogue. Unchecked: there is no catalogue to
	// look it up in, and the name is taken as a base model.
	Found, Unchecked bool
}

// catalogue maps names that clients may ask for. It is immutable.
type catalogue struct {
	names map[string]Resolution
	known bool // some source of names is there
}

// Resolve looks up a request's model: in the configured catalogue, else in what
// the engines list at /v1/models.
func (p *Pool) Resolve(model string) Resolution {
	c := p.catalogue.Load()
	if r, ok := c.names[model]; ok {
		return r
	}
	return Resolution{Base: model, Unchecked: !c.known}
}

// buildCatalogue makes the catalogue anew; the pool's lock is held, or the pool
// not shared yet.
func (p *Pool) buildCatalogue() *catalogue {
	c := &catalogue{names: map[string]Resolution{}}
	for _, m := range p.cfg.Models {
		c.known = true
		c.add(m.Name, Resolution{Base: m.Name})
		for _, alias := range m.Aliases {
			c.add(alias, Resolution{Base: m.Name})
		}
		for _, adapter := range m.Adapters {
			c.add(adapter, Resolution{Base: m.Name, Adapter: adapter})
		}
	}
	if c.known {
		return c
	}
	for _, e := range p.endpoints {
		c.list(e)
	}
	return c
}

// list adds what one engine serves. Names that share a root are aliases of the
// first of them.
func (c *catalogue) list(e *endpoint) {
	first := map[string]string{}
	for _, m := range e.listed {
		c.known = true
		if m.Parent != "" {
			c.add(m.ID, Resolution{Base: m.Parent, Adapter: m.ID})
			continue
		}
		base := m.ID
		if m.Root != "" {
			if known, ok := first[m.Root]; ok {
				base = known
			}
			first[m.Root] = base
		}
		c.add(m.ID, Resolution{Base: base})
	}
}

func (c *catalogue) add(name string, r Resolution) {
	r.Found = true
	if _, taken := c.names[name]; !taken {
		c.names[name] = r
	}
}
