//go:build race

package kvindex

// raceEnabled says that tests run at a tenth of the pace.
const raceEnabled = true
