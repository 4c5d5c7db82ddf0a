package answer

import "encoding/json"

// Renamer gives an answer the model name that the client asked with in place of
// the one under which the engine serves the model. Only the value of a top-level
// "model" that is exactly the engine's name is exchanged, wherever the answer is
// cut into pieces; every other byte passes as it is, and at once.
type Renamer struct {
	scan     scanner
	from, to []byte // as JSON strings

	matched int  // bytes of from that were read and are held back
	decided bool // nothing more is to be done for the present value
}

// NewRenamer makes a renamer for one answer; from is the engine's name. In an
// [Opaque] one nothing is renamed.
func NewRenamer(f Format, from, to string) *Renamer {
	return &Renamer{scan: scanner{name: "model", format: f}, from: quoted(from), to: quoted(to)}
}

// quoted is a name as engines write it: only what must be escaped is.
func quoted(name string) []byte {
	text, err := json.Marshal(name)
	if err != nil { // strings always marshal
		return []byte(`""`)
	}
	return text
}

// Append takes the next piece of the answer and appends to dst what may be
// passed on by now. That is all of it but for the beginning of a name that may
// be the engine's. It may be longer than the piece; dst and p must not overlap.
func (r *Renamer) Append(dst, p []byte) []byte {
	if r.scan.format == Opaque {
		return append(dst, p...)
	}
	for len(p) > 0 {
		if n := r.scan.idle(p); n > 0 {
			dst, p = append(r.Flush(dst), p[:n]...), p[n:]
			continue
		}
		c := p[0]
		p = p[1:]
		if r.scan.step(c) == value {
			dst = r.match(dst, c)
			continue
		}
		dst = append(r.Flush(dst), c)
		r.decided = false
	}
	return dst
}

// Flush appends what was held back, as it was. It must be called when the answer
// ends, however it ends.
func (r *Renamer) Flush(dst []byte) []byte {
	dst = append(dst, r.from[:r.matched]...)
	r.matched = 0
	return dst
}

// match takes a byte of the value.
func (r *Renamer) match(dst []byte, c byte) []byte {
	switch {
	case r.decided, r.matched == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
		return append(dst, c)
	case c != r.from[r.matched]:
		r.decided = true
		return append(r.Flush(dst), c)
	}
	r.matched++
	if r.matched < len(r.from) {
		return dst
	}
	r.matched, r.decided = 0, true
	return append(dst, r.to...)
}
