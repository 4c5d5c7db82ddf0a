package health

import "fmt"

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

func (j *judgement) xid(code Number) {
	const most = 1 << 16
	if !code.above(0) || code.V > most || applications[int(code.V)] {
		return
	}
	n := int(code.V)
	if what, ok := resets[n]; ok {
		j.limits(XID, 20, fmt.Sprintf("XID %d: %s", n, what))
		return
	}
	j.costs(XID, 40, fmt.Sprintf("XID %d", n))
}
