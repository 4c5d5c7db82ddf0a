package explain

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/eppctl/eppctl/score"
)

// checksums of the inputs: by candidate and by kind. A CRC-32 detects every
// single changed bit; the candidate's and the kind's together name the place.
type checksums struct {
	rows  []string
	kinds map[string]string
}

// Seal writes the checksums of all inputs into the record. The writer of a record
// calls it once; [Replay] verifies it. What a replay computes itself (reasons,
// scores, order, the pick) needs none, and what came after the decision (timings,
// attempts, outcome) is not an input.
func (r *Record) Seal() {
	sums := r.checksums()
	r.Check = sums.kinds
	for i := range r.Candidates {
		r.Candidates[i].Check = sums.rows[i]
	}
}

// sealed reports whether the record carries checksums at all: one that was
// imported from a foreign log has none, as nobody sealed what its picker saw.
func (r *Record) sealed() bool {
	return len(r.Check) > 0 || slices.ContainsFunc(r.Candidates, func(c Candidate) bool { return c.Check != "" })
}

// damage names the input whose checksum does not fit; "" when all fit or the
// record is not sealed.
func (r *Record) damage() string {
	if !r.sealed() {
		return ""
	}
	sums := r.checksums()
	at := slices.IndexFunc(kindOrder, func(kind string) bool { return r.Check[kind] != sums.kinds[kind] })
	if at >= 0 && at < firstOfCandidates {
		return notRecorded(kindOrder[at])
	}
	for i := range r.Candidates {
		switch {
		case r.Candidates[i].Check == sums.rows[i]:
		case at < 0:
			return r.Candidates[i].Pod + ": the checksum itself is not what was recorded"
		default:
			return r.Candidates[i].Pod + ": " + notRecorded(kindOrder[at])
		}
	}
	if at >= 0 {
		return notRecorded(kindOrder[at])
	}
	return ""
}

func notRecorded(kind string) string {
	return fmt.Sprintf("input %q is not what was recorded (checksum)", kind)
}

// kindOrder lists the kinds of input that are checked, in the order in which a
// difference is reported: those of the whole decision, then those of candidates.
var kindOrder = []string{
	"id", "time", "timeScale", "policy", "request", "chain", "weights", "seed", kindGateway, kindOrigin,
	"pod", "reason", "cache", "load", "waiting", "pending", "inFlight", "health", "adapters", "custom",
}

// firstOfCandidates is the place of the first kind that each candidate has.
const firstOfCandidates = 10

// These have a checksum only in a record that has a gateway in front, or that
// comes from another picker.
const (
	kindGateway = "gateway"
	kindOrigin  = "origin"
)

func (r *Record) checksums() checksums {
	byKind := r.whole()
	sums := checksums{rows: make([]string, len(r.Candidates)), kinds: map[string]string{}}
	for i := range r.Candidates {
		row := []byte{}
		for k, b := range r.Candidates[i].cells() {
			kind := kindOrder[firstOfCandidates+k]
			byKind[kind] = append(byKind[kind], b...)
			row = append(row, b...)
		}
		sums.rows[i] = crc(row)
	}
	for _, kind := range kindOrder {
		if kind == kindGateway && r.Gateway == nil || kind == kindOrigin && r.Origin == nil {
			continue
		}
		sums.kinds[kind] = crc(byKind[kind])
	}
	return sums
}

// whole are the inputs of the whole decision as bytes, by kind.
func (r *Record) whole() map[string][]byte {
	w := &r.Weights
	weights := floats(w.Cache, w.Load, w.Queue, w.Health, w.Adapter, w.MaxUtilization)
	weights = append(weights, whole(w.MaxQueue, int(w.Generation))...)
	weights = append(weights, text(w.Saturation)...)
	for _, c := range w.Custom {
		weights = append(append(weights, text(c.Name)...), floats(c.Weight)...)
	}
	return map[string][]byte{
		"id":        append(text(r.APIVersion, r.Kind, r.DecisionID, r.RequestID), bits(r.RequestIDReplaced)...),
		"time":      binary.LittleEndian.AppendUint64(whole(r.Time.Nanosecond()), uint64(r.Time.Unix())),
		"timeScale": floats(r.TimeScale),
		"policy":    text(r.Policy),
		"request":   r.Request.bytes(),
		"chain":     text(r.Request.Chain...),
		"weights":   weights,
		"seed":      binary.LittleEndian.AppendUint64(nil, r.Seed),
		kindGateway: r.Gateway.bytes(),
		kindOrigin:  r.Origin.bytes(),
	}
}

// bytes are all of what the gateway said and got.
func (g *Gateway) bytes() []byte {
	if g == nil {
		return nil
	}
	b := append(text(g.Kind, g.RequestBody, g.ResponseBody), bits(g.Subset != nil)...)
	if s := g.Subset; s != nil {
		b = append(append(b, whole(s.Count, s.Unknown, len(s.Addresses))...), text(s.Addresses...)...)
	}
	return append(b, text(g.Fallbacks...)...)
}

// bytes are all of where the record came from.
func (o *Origin) bytes() []byte {
	if o == nil {
		return nil
	}
	b := append(text(o.Kind, o.Version, o.Profile, o.Picker, o.WeightsFrom, o.Log), bits(o.Primary)...)
	return append(b, text(o.Targets...)...)
}

// bytes are all of the request but its chain.
func (q *Request) bytes() []byte {
	b := text(q.Path, q.Model, q.Base, q.Adapter, q.NoPrefix, q.TokensFrom)
	b = append(b, whole(q.PromptTokens, q.Prompts, q.PrefixTokens, q.BlockSize, q.Blocks)...)
	b = append(b, bits(q.ModelUnchecked, q.Stream)...)
	return append(b, q.Rewrite.bytes()...)
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
	adapters = append(adapters, bits(a.Match)...)
	if a.Waiting != nil {
		adapters = append(adapters, whole(*a.Waiting)...)
	}
	running := whole(c.InFlight)
	if c.Running != nil {
		running = append(running, floats(*c.Running)...)
	}
	pending := whole(c.Pending)
	if c.PeerPending != 0 { // records from before there were any have none
		pending = append(pending, whole(c.PeerPending)...)
	}
	var custom []byte
	for _, v := range c.Custom {
		custom = append(custom, text(v.Name, v.State, v.Detail)...)
		custom = append(custom, optional(v.Value)...)
	}
	return [10][]byte{
		text(c.Pod, c.Endpoint), text(excluded), c.Cache.bytes(), c.Load.bytes(), c.Waiting.bytes(),
		pending, running, c.Health.bytes(), adapters, custom,
	}
}

func (in *Input) bytes() []byte {
	b := append(text(in.State, in.Source, in.Detail), optional(in.Value)...)
	b = append(b, floats(in.AgeSeconds)...)
	for _, t := range in.Tiers {
		b = append(append(append(b, text(t.Tier)...), whole(t.Blocks)...), floats(t.Weight)...)
	}
	return b
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

func bits(values ...bool) (b []byte) {
	for _, v := range values {
		if v {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
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
