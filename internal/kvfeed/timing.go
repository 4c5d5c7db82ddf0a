package kvfeed

import "time"

// wall is the time by which questions to engines are bounded, whatever clock the
// fleet runs on.
func wall() time.Time { return time.Now() }
