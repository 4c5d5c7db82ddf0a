package health

import (
	"fmt"
	"math"
)

// Codes of the driver's errors (XID), by NVIDIA's catalogue. The exporter shows the
// last one until it is restarted.
var (
	// resets are errors that take a reset of the GPU or of the node.
	resets = map[int]string{
		46:  "GPU stopped processing",
		48:  "uncorrectable ECC error",
		62:  "internal microcontroller halted",
		64:  "row remapping failed",
		74:  "NVLink error",
		79:  "GPU has fallen off the bus",
		95:  "uncontained ECC error",
		119: "GSP does not answer",
		120: "GSP error",
		140: "unrecovered ECC error",
		143: "GPU initialisation failed",
	}
	// applications are errors of a program on the GPU, which is not to blame:
	// those that Kubernetes' device plugin ignores.
	applications = map[int]bool{13: true, 31: true, 43: true, 45: true, 68: true, 109: true}
)

// severity is what an error of the driver says of the GPU.
type severity int

const (
	harmless severity = iota // none, or an application's, or no code at all
	doubtful                 // costs points
	fatal                    // takes a reset
)

func severityOf(code float64) severity {
	const most = 1 << 16
	if !(code > 0 && code <= most) || applications[int(code)] {
		return harmless
	}
	if _, ok := resets[int(code)]; ok {
		return fatal
	}
	return doubtful
}

// WorseXID is the code of the two that says the worse of a pod's GPUs: one that has
// fallen off the bus is not hidden by an error of lesser weight with a larger number.
func WorseXID(a, b float64) float64 {
	switch d := severityOf(a) - severityOf(b); {
	case d > 0:
		return a
	case d < 0:
		return b
	}
	return math.Max(a, b)
}

func (j *judgement) xid(code Number) {
	if !code.Known {
		return
	}
	n := int(code.V)
	switch severityOf(code.V) {
	case harmless:
	case doubtful:
		j.costs(XID, 40, fmt.Sprintf("XID %d", n))
	case fatal:
		j.limits(XID, 20, fmt.Sprintf("XID %d: %s", n, resets[n]))
	}
}
