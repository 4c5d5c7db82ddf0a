package record

import (
	"math"

	"github.com/eppctl/eppctl/explain"
)

// Rewrite is how the name that a client used became the engines' own; zero when no
// rule did that.
type Rewrite struct {
	To          string // the engines' name
	By          string // the rule
	Criticality string // that it gives; "" = none
	// To has Weight of the Sum of all Targets; 0 when the rule has none.
	Weight, Sum, Targets int
}

// A rewrite's part of a record is there with moreRewrite only: its length (u16,
// itself left out), numbers, then texts of a byte of length each.
const (
	rwWeight  = 0 // u32
	rwSum     = 4 // u64
	rwTargets = 12
	rwTexts   = 14

	rewriteLength = 2
)

var rewriteLimits = [...]int{255, 255, 32}

func (r *Rewrite) texts() [len(rewriteLimits)]string { return [...]string{r.To, r.By, r.Criticality} }

// size is how many bytes the part takes, its length included; 0 without a rewrite.
func (r *Rewrite) size() int {
	if r.By == "" {
		return 0
	}
	n := rewriteLength + rwTexts
	for i, text := range r.texts() {
		n += 1 + len(clip(text, rewriteLimits[i]))
	}
	return n
}

func (r *Rewrite) encode(b []byte) {
	le.PutUint16(b, uint16(len(b)-rewriteLength))
	b = b[rewriteLength:]
	le.PutUint32(b[rwWeight:], uint32(min(max(r.Weight, 0), math.MaxUint32)))
	le.PutUint64(b[rwSum:], uint64(max(r.Sum, 0)))
	le.PutUint16(b[rwTargets:], uint16(min(max(r.Targets, 0), math.MaxUint16)))
	at := rwTexts
	for i, text := range r.texts() {
		n := putString(b[at+1:], text, rewriteLimits[i])
		b[at] = uint8(n)
		at += 1 + n
	}
}

// rewriteOf reads the part back; nil when there is none.
func (p *parts) rewriteOf() *explain.Rewrite {
	b := p.rewrite
	if len(b) == 0 {
		return nil
	}
	var texts [len(rewriteLimits)]string
	at := rwTexts
	for i := range texts {
		n := at + 1 + int(b[at])
		texts[i], at = valid(b[at+1:n]), n
	}
	return &explain.Rewrite{
		To: texts[0], By: texts[1], Criticality: texts[2],
		Weight: int(le.Uint32(b[rwWeight:])), WeightSum: int(le.Uint64(b[rwSum:])), Targets: int(le.Uint16(b[rwTargets:])),
	}
}
