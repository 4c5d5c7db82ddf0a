package simulate

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/eppctl/eppctl/internal/load"
)

// maxLine bounds a line of a trace.
const maxLine = 4 << 20

// readMooncake reads a trace in Mooncake's format: JSON Lines whose hash ids stand
// for 512 tokens each.
func readMooncake(r io.Reader, c *collector) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	sessions := newSessions()
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		l, err := load.ParseLine(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		q := Request{At: time.Duration(l.Timestamp * float64(time.Millisecond)), Output: l.OutputLength}
		for _, id := range l.HashIDs[:(l.InputLength+load.BlockTokens-1)/load.BlockTokens] {
			q.Prompt = then(q.Prompt, id, min(load.BlockTokens, l.InputLength-text(q.Prompt).Len()))
		}
		sessions.name(&q)
		if err := c.add(q); err != nil {
			return err
		}
	}
	return lines.Err()
}

// sessions guesses conversations in a trace that does not name them: a request
// continues the one that its longest known prefix came from, if that is nearly all
// of what that one had.
type sessions struct {
	of   map[uint64]*session // by the id of a piece, of the request that brought it first
	next uint64
}

type session struct {
	id     uint64
	turns  int
	pieces int // of the last turn
}

func newSessions() *sessions { return &sessions{of: map[uint64]*session{}} }

// name gives the request its conversation, which stands for its client too.
func (s *sessions) name(q *Request) {
	var found *session
	known := 0
	for known < len(q.Prompt) && s.of[q.Prompt[known].ID] != nil {
		found = s.of[q.Prompt[known].ID]
		known++
	}
	// The last piece of a turn is cut, and whole in the next: another id.
	if found == nil || known < found.pieces-1 || known < 2 {
		s.next++
		found = &session{id: s.next}
	}
	found.turns++
	found.pieces = len(q.Prompt)
	for _, p := range q.Prompt[known:] {
		s.of[p.ID] = found
	}
	q.Session, q.Client, q.Turn = found.id, found.id, found.turns
}
