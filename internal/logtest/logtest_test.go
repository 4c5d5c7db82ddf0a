package logtest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestLog(t *testing.T) {
	var log Log
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for range 100 {
				fmt.Fprintln(&log, "line of", i)
				_ = log.String()
			}
		})
	}
	writers.Wait()
	if n := strings.Count(log.String(), "line of "); n != 400 {
		t.Errorf("%d lines are kept, want 400", n)
	}
}
