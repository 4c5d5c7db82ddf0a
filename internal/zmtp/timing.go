package zmtp

import "time"

// Deadlines of the network are wall time, whatever clock the fleet runs on.
func now() time.Time { return time.Now() }

func since(t time.Time) time.Duration { return time.Since(t) }
