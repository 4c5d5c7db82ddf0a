package record

import "github.com/eppctl/eppctl/explain"

// Render makes the document of an entry without keeping it, for a log line: the
// same that [Ring.Load] gives before the outcome is known. Nil for an entry that
// contradicts itself.
func (r *Ring) Render(e *Entry) *explain.Record {
	s, ok := e.measure()
	if !ok {
		return nil
	}
	v := view{raw: make([]byte, s.total), roster: newRoster(e.Roster, e.Inputs.Pods), weights: e.Inputs.Weights}
	v.raw[offState] = statePending
	e.encode(v.raw, s, refs{})
	return v.record(r.keyed)
}
