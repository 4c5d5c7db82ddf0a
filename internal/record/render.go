package record

import "github.com/eppctl/eppctl/explain"

// Render makes the document of a decision without recording it, for a log that
// shows whole records; nil for an entry too large to record. It allocates.
func (r *Ring) Render(e *Entry) *explain.Record {
	s, ok := e.measure()
	if !ok {
		return nil
	}
	raw := make([]byte, s.total)
	e.encode(raw, s, refs{})
	raw[offState] = statePending
	v := view{raw: raw, roster: newRoster(e.Roster, e.Inputs.Pods), weights: e.Inputs.Weights.Clone(), keyed: r.keyed}
	return v.record()
}
