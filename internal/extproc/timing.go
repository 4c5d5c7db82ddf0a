package extproc

import "time"

// moment is a point in wall time, the zero moment none.
type moment struct{ at time.Time }

func now() moment { return moment{time.Now()} }

func (m moment) none() bool { return m.at.IsZero() }

// passed is the wall time since m.
func (m moment) passed() time.Duration { return time.Since(m.at) }
