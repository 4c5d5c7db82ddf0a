package tokens

import "time"

// wallTime is what timeouts, pauses and lifetimes go by: servers take real time to
// answer, however fast the fleet's clock runs.
func wallTime() time.Time { return time.Now() }
