package picker

// Election says which of several replicas picks.
type Election interface {
	// Leading reports whether this one does at this moment.
	Leading() bool
	// Leader is the name of the one that does; "" = not known.
	Leader() string
}

// standby is the refusal of a picker that is not to pick.
func (p *Picker) standby() error {
	if p.cfg.Election == nil || p.cfg.Election.Leading() {
		return nil
	}
	return &Refusal{Status: 503, Reason: "not-leader", Detail: Standby(p.cfg.Election)}
}

// Standby says in words who picks in place of one that does not.
func Standby(e Election) string {
	if leader := e.Leader(); leader != "" {
		return "standby: " + leader + " leads"
	}
	return "standby: nobody leads yet"
}
