package health

import "math"

// Signal is one source of what a pod's health is judged by.
type Signal uint8

// The signals, in the order of the table.
const (
	Operator Signal = iota
	Probe
	Models
	Generation
	DoubleBit
	SingleBit
	XID
	Temperature
	Throttling
	Memory
	Warmth
	Report
)

const signals = int(Report) + 1

var signalNames = [signals]string{
	"operator", "probe", "models", "generation", "ecc-double", "ecc-single", "xid", "temperature", "throttling", "memory", "warmth", "report",
}

// String is the signal's spelling in JSON and on screens.
func (s Signal) String() string {
	if int(s) < signals {
		return signalNames[s]
	}
	return "invalid"
}

// Number is a value that may not be known; the zero Number is not.
type Number struct {
	V     float64
	Known bool
}

// Of is a known number. What is no number is not known.
func Of(v float64) Number { return Number{v, !math.IsNaN(v) && !math.IsInf(v, 0)} }

// atLeast reports whether the number is known and not below a threshold.
func (n Number) atLeast(v float64) bool { return n.Known && n.V >= v }

func (n Number) above(v float64) bool { return n.Known && n.V > v }

// Answer is yes, no, or not known.
type Answer uint8

// The answers.
const (
	Unknown Answer = iota
	Yes
	No
)

// Signals is what is known of a pod at one moment. The zero value is of a pod of
// which nothing is known.
type Signals struct {
	Drained    bool     // by an operator
	Probe      Standing // of GET /health
	Generation Standing // of the 1-token probe
	Model      Answer   // whether the pod lists a model that anybody asks for
	DoubleBit  Number   // ECC errors that could not be corrected, new ones
	SingleBit  Number   // ECC errors that were corrected, new ones
	XID        Number   // code of the driver's last error; 0 = none
	Hottest    Number   // temperature of the GPUs in °C
	Throttle   Number   // bits of why clocks are lowered, as DCGM has them
	Memory     Number   // share of the GPUs' memory in use, 0..1
	Warm       Answer   // whether any block is cached
	Reported   Number   // what the pod says of itself, 0..1
}

// known reports whether anything is known of a signal.
func (s *Signals) known(of Signal) bool {
	return [signals]bool{
		Operator: true, Probe: s.Probe.Known, Models: s.Model != Unknown, Generation: s.Generation.Known,
		DoubleBit: s.DoubleBit.Known, SingleBit: s.SingleBit.Known, XID: s.XID.Known, Temperature: s.Hottest.Known,
		Throttling: s.Throttle.Known, Memory: s.Memory.Known, Warmth: s.Warm != Unknown, Report: s.Reported.Known,
	}[of]
}
