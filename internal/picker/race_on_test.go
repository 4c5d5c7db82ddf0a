//go:build race

package picker

// raceEnabled says that a sync.Pool forgets some of what it is given.
const raceEnabled = true
