package explain

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/eppctl/eppctl/score"
)

// checksums of the inputs: by candidate and by kind. A CRC-32 detects every
// single changed bit; the candidate's and the kind's together name the place.
type checksums struct {
	rows  []string
	kinds map[string]string
}

// Seal writes the checksums of the inputs into the record. The writer of a
// record calls it once; [Replay] verifies it.
func (r *Record) Seal() {
	sums := r.checksums()
	r.Check = sums.kinds
	for i := range r.Candidates {
		r.Candidates[i].Check = sums.rows[i]
	}
}

// damage names the input whose checksum does not fit; "" when all fit or the
// record carries none.
func (r *Record) damage() string {
	if len(r.Check) == 0 {
		return ""
	}
	sums := r.checksums()
	kind := ""
	for _, k := range kindOrder {
		if r.Check[k] != sums.kinds[k] {
			kind = k
			break
		}
	}
	for i := range r.Candidates {
		switch {
		case r.Candidates[i].Check == sums.rows[i]:
		case kind == "":
			return r.Candidates[i].Pod + ": the checksum itself is not what was recorded"
		default:
			return fmt.Sprintf("%s: input %q is not what was recorded (checksum)", r.Candidates[i].Pod, kind)
		}
	}
	if kind != "" {
		return fmt.Sprintf("input %q is not what was recorded (checksum)", kind)
	}
	return ""
}

// kindOrder lists the kinds of input that are checked, in the order in which a
// difference is reported.
var kindOrder = []string{
	"request", "weights", "seed", "pod", "reason", "cache", "load", "waiting", "pending", "inFlight", "health", "adapters", "custom",
}

func (r *Record) checksums() checksums {
	byKind := make(map[string][]byte, len(kindOrder))
	add := func(kind string, b []byte) { byKind[kind] = append(byKind[kind], b...) }
	q := &r.Request
	add("request", text(q.Base, q.Adapter, q.NoPrefix))
	add("request", whole(q.PromptTokens, q.PrefixTokens, q.BlockSize, q.Blocks))
	w := &r.Weights
	add("weights", floats(w.Cache, w.Load, w.Queue, w.Health, w.Adapter, w.MaxUtilization))
	add("weights", whole(w.MaxQueue, int(w.Generation)))
	add("weights", text(w.Saturation))
	for _, c := range w.Custom {
		add("weights", append(text(c.Name), floats(c.Weight)...))
	}
	add("seed", binary.LittleEndian.AppendUint64(nil, r.Seed))
	sums := checksums{rows: make([]string, len(r.Candidates)), kinds: map[string]string{}}
	for i := range r.Candidates {
		row := []byte{}
		for kind, b := range r.Candidates[i].cells() {
			add(kindOrder[kind+3], b)
			row = append(row, b...)
		}
		sums.rows[i] = crc(row)
	}
	for _, kind := range kindOrder {
		sums.kinds[kind] = crc(byKind[kind])
	}
	return sums
}

// cells are the candidate's inputs as bytes, in the order of kindOrder from "pod" on.
func (c *Candidate) cells() [10][]byte {
	// What Decide finds itself is a result; only the pool's verdict is an input.
	excluded := c.Reason
	if excluded == score.Unhealthy.String() || excluded == score.QueueFull.String() {
		excluded = ""
	}
	a := &c.Adapters
	adapters := append(text(a.State, a.Detail), whole(a.Loaded, a.Max)...)
	if a.Match {
		adapters = append(adapters, 1)
	}
	var custom []byte
	for _, v := range c.Custom {
		custom = append(custom, text(v.Name, v.State, v.Detail)...)
		custom = append(custom, optional(v.Value)...)
	}
	return [10][]byte{
		text(c.Pod, c.Endpoint), text(excluded), c.Cache.bytes(), c.Load.bytes(), c.Waiting.bytes(),
		whole(c.Pending), whole(c.InFlight), c.Health.bytes(), adapters, custom,
	}
}

func (in *Input) bytes() []byte {
	b := append(text(in.State, in.Source, in.Detail), optional(in.Value)...)
	return append(b, floats(in.AgeSeconds)...)
}

func optional(v *float64) []byte {
	if v == nil {
		return []byte{0}
	}
	return append([]byte{1}, floats(*v)...)
}

func floats(values ...float64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func whole(values ...int) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func text(values ...string) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	return b
}

func crc(b []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(b)) }
