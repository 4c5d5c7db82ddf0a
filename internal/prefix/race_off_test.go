//go:build !race

package prefix

// raceEnabled says that tests run at a tenth of the pace.
const raceEnabled = false
