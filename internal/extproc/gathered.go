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
// what has come costs its own size and no more.
type gathered struct {
	budget *body.Budget
	pieces [][]byte
	size   int64
	held   int64 // of the budget
}

var errNoMemory = errors.New("no memory for the body")

// add takes the next piece, within the limits of size and memory. It keeps p.
func (g *gathered) add(p []byte, limit int64) error {
	if len(p) == 0 {
		return nil
	}
	if g.size+int64(len(p)) > limit {
		return tooLarge(limit)
	}
	if !g.reserve(int64(len(p))) {
		return errNoMemory
	}
	g.size += int64(len(p))
	g.pieces = append(g.pieces, p)
	return nil
}

func (g *gathered) reserve(n int64) bool {
	if !g.budget.Take(n) {
		return false
	}
	g.held += n
	return true
}

// join makes one text of the pieces, which it needs a second time the memory for
// while it does.
func (g *gathered) join() ([]byte, error) {
	switch len(g.pieces) {
	case 0:
		return nil, nil
	case 1:
		return g.pieces[0], nil
	}
	if !g.reserve(g.size) {
		return nil, errNoMemory
	}
	g.pieces = [][]byte{slices.Concat(g.pieces...)}
	g.budget.Give(g.size)
	g.held -= g.size
	return g.pieces[0], nil
}

// release forgets the body.
func (g *gathered) release() {
	g.budget.Give(g.held)
	g.pieces, g.held = nil, 0
}

func tooLarge(limit int64) error {
	return &request.Error{
		Status: http.StatusRequestEntityTooLarge, Code: "request_too_large", Param: "body",
		Message: fmt.Sprintf("the body is longer than %d bytes", limit),
	}
}
