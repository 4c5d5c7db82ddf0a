package extproc

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/eppctl/eppctl/internal/body"
	"github.com/eppctl/eppctl/internal/request"
)

// gathered is a request body on its way through, as the pieces in which it came:
// what has come costs its own size and little more.
type gathered struct {
	budget *body.Budget
	pieces [][]byte
	size   int64
	held   int64 // of the budget
	ahead  int64 // of these, for what has not come yet
}

var errNoMemory = errors.New("no memory for the body")

// pieceCost is what a piece takes beside its bytes, which a client may send one
// by one: its place in the list, twice while that grows, and the allocator's
// rounding.
const pieceCost = 64

// add takes the next piece, within the limits of size and memory. It keeps p.
func (g *gathered) add(p []byte, limit int64) error {
	if len(p) == 0 {
		return nil
	}
	if g.size+int64(len(p)) > limit {
		return tooLarge(limit)
	}
	if !g.reserve(int64(len(p)) + pieceCost) {
		return errNoMemory
	}
	g.size += int64(len(p))
	g.pieces = append(g.pieces, p)
	return nil
}

// expect takes the memory for a body of n bytes before it comes, in one message
// that is in memory before anybody can look at it. A negative n is not known.
func (g *gathered) expect(n, limit int64) error {
	switch {
	case n > limit:
		return tooLarge(limit)
	case n > 0 && !g.reserve(n):
		return errNoMemory
	}
	g.ahead = max(n, 0)
	return nil
}

func (g *gathered) reserve(n int64) bool {
	expected := min(n, g.ahead)
	if !g.budget.Take(n - expected) {
		return false
	}
	g.ahead -= expected
	g.held += n - expected
	return true
}

// join makes one text of the pieces.
func (g *gathered) join() ([]byte, error) {
	switch len(g.pieces) {
	case 0:
		return nil, nil
	case 1:
		return g.pieces[0], nil
	}
	if err := g.exchange(func() ([]byte, error) { return slices.Concat(g.pieces...), nil }); err != nil {
		return nil, err
	}
	return g.pieces[0], nil
}

// exchange puts another text of about the same size in the body's place, which
// takes the memory a second time while both are there.
func (g *gathered) exchange(with func() ([]byte, error)) error {
	if !g.reserve(g.size) {
		return errNoMemory
	}
	text, err := with()
	if err != nil {
		return err
	}
	g.pieces = [][]byte{text}
	g.budget.Give(g.size)
	g.held -= g.size
	return nil
}

// release forgets the body.
func (g *gathered) release() {
	g.budget.Give(g.held)
	g.pieces, g.held, g.ahead = nil, 0, 0
}

func tooLarge(limit int64) error {
	return &request.Error{
		Status: http.StatusRequestEntityTooLarge, Code: "request_too_large", Param: "body",
		Message: fmt.Sprintf("the body is longer than %d bytes", limit),
	}
}
