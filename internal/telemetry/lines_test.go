package telemetry

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// gate is a writer that can be held.
type gate struct {
	open chan struct{} // nil = open
	text bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	if g.open != nil {
		<-g.open
	}
	return g.text.Write(p)
}

func TestLinesKeepTheirOrderAndEnd(t *testing.T) {
	var out gate
	l := NewLines(&out)
	var want strings.Builder
	for i := range 10_000 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		if _, err := l.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	if _, err := l.Write([]byte("late\n")); err != nil {
		t.Fatal(err)
	}
	if got := out.text.String(); got != want.String()+"late\n" {
		t.Errorf("%d bytes came, %d were written", len(got), want.Len())
	}
}

func TestLinesWaitForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := gate{open: make(chan struct{})}
		l := NewLines(&out)
		piece := bytes.Repeat([]byte{'x'}, maxLines)
		written := 0
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 5 {
				n, _ := l.Write(piece)
				written += n
			}
		})
		synctest.Wait()
		l.mu.Lock()
		waiting := len(l.buf)
		l.mu.Unlock()
		if waiting > 2*maxLines {
			t.Errorf("%d bytes wait in memory, at most %d should", waiting, 2*maxLines)
		}
		close(out.open)
		wg.Wait()
		l.Close()
		if out.text.Len() != 5*maxLines || written != 5*maxLines {
			t.Errorf("%d bytes came of %d", out.text.Len(), 5*maxLines)
		}
	})
}
