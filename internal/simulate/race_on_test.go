//go:build race

package simulate

// raceEnabled says that tests run at a tenth of the pace.
const raceEnabled = true
