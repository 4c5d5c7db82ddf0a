package explain

import "fmt"

// text is the name and what became of it, by what.
func (r *Rewrite) text(asked string) string {
	text := asked
	if r.To != asked {
		text += " → " + r.To
	}
	text += " (" + r.By
	if r.Targets > 1 {
		text += fmt.Sprintf(", weight %d of %d", r.Weight, r.WeightSum)
	}
	if r.Criticality != "" {
		text += ", " + r.Criticality
	}
	return text + ")"
}

// gaveWay is why the request was not let into a full queue, where that is the
// model's own doing.
func (r *Report) gaveWay() string {
	if r.Rewrite == nil || r.Rewrite.Criticality != Sheddable {
		return ""
	}
	return ", and the model is " + Sheddable
}

// bytes are all of the rewrite; none where there was none, as in records from before
// there were any.
func (r *Rewrite) bytes() []byte {
	if r == nil {
		return nil
	}
	return append(text(r.To, r.By, r.Criticality), whole(r.Targets, r.Weight, r.WeightSum)...)
}
