package picker

import (
	"time"

	"github.com/eppctl/eppctl/internal/record"
)

// stopwatch times the stages of one pick, in wall time.
type stopwatch struct {
	record.Timings
	last time.Time
}

// start begins with the time that the request took before it came here: the wait
// for its body, which is not the picker's, and reading it.
func start(parsing, bodyWait time.Duration) stopwatch {
	return stopwatch{Timings: record.Timings{Parse: parsing, Total: parsing, BodyWait: bodyWait}, last: time.Now()}
}

// lap ends a stage.
func (w *stopwatch) lap(stage *time.Duration) {
	now := time.Now()
	*stage = now.Sub(w.last)
	w.Total += *stage
	w.last = now
}
