package gateway

import (
	"encoding/json"
	"io"
)

// renamer gives an answer the model name that the client asked with in place of
// the one under which the engine serves the model. Only the value of a top-level
// "model" that is exactly the engine's name is exchanged, wherever the answer is
// cut into pieces; every other byte passes as it is, and at once.
type renamer struct {
	io.ReadCloser
	scan     scanner
	from, to []byte // as JSON strings

	matched int  // bytes of from that were read and are held back
	decided bool // nothing more is to be done for the present value
	out     []byte
	pending []byte // of out
	err     error
}

func newRenamer(src io.ReadCloser, sse bool, from, to string) *renamer {
	return &renamer{ReadCloser: src, scan: scanner{name: "model", sse: sse}, from: quoted(from), to: quoted(to)}
}

// quoted is a name as engines write it: only what must be escaped is.
func quoted(name string) []byte {
	text, err := json.Marshal(name)
	if err != nil { // strings always marshal
		return []byte(`""`)
	}
	return text
}

// Read implements [io.Reader].
func (r *renamer) Read(p []byte) (int, error) {
	for len(r.pending) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		n, err := r.ReadCloser.Read(p)
		r.out = r.out[:0]
		r.pass(p[:n])
		if err != nil {
			r.hold(false)
			r.err = err
		}
		r.pending = r.out
		if n == 0 && err == nil {
			return 0, nil
		}
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}

func (r *renamer) pass(p []byte) {
	for len(p) > 0 {
		if n := r.scan.idle(p); n > 0 {
			r.hold(false)
			r.out, p = append(r.out, p[:n]...), p[n:]
			continue
		}
		c := p[0]
		p = p[1:]
		if r.scan.step(c) != value {
			r.hold(false)
			r.decided = false
			r.out = append(r.out, c)
			continue
		}
		r.match(c)
	}
}

// match takes a byte of the value.
func (r *renamer) match(c byte) {
	switch {
	case r.decided, r.matched == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
		r.out = append(r.out, c)
	case c != r.from[r.matched]:
		r.hold(false)
		r.decided = true
		r.out = append(r.out, c)
	default:
		r.matched++
		if r.matched == len(r.from) {
			r.hold(true)
			r.decided = true
		}
	}
}

// hold ends the holding back: what was held is sent as it was, or exchanged.
func (r *renamer) hold(exchange bool) {
	if exchange {
		r.out = append(r.out, r.to...)
	} else {
		r.out = append(r.out, r.from[:r.matched]...)
	}
	r.matched = 0
}
