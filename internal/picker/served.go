package picker

import (
	"strings"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/record"
)

// Bounds of texts from outside, in bytes.
const (
	maxEndpoint = 128
	maxFlags    = 32
	maxDetails  = 120
)

// serving is who served, as a gateway said.
type serving struct {
	endpoint string
	pod      string // that the reservation moved to; "" when it stayed where it was
}

// asPicked stands for the picked endpoint.
var asPicked = new(serving)

// ServedBy says which endpoint a gateway in front sent the request to in the end,
// as it tells with the response's headers. If that is another than the picked
// one, the reservation moves to the pod that has it; an endpoint that no pod has
// only stands in the record. Only the first call counts, and none after
// [Pick.Done]. [Pick.Pod] and [Pick.Endpoint] stay what was picked.
func (k *Pick) ServedBy(endpoint string) {
	if endpoint != "" && !k.ended.Load() {
		k.serve(endpoint)
	}
}

// Unreached says that a gateway in front got no connection to an endpoint: if it
// is the picked one, its pod counts as failed until a probe finds it well.
func (k *Pick) Unreached(endpoint, why string) {
	if endpoint == k.endpoint {
		k.picker.cfg.Pool.Refused(k.pod, k.endpoint, why)
	}
}

func (k *Pick) serve(endpoint string) {
	if !k.told.CompareAndSwap(false, true) {
		return
	}
	if endpoint == k.endpoint || pool.CanonicalAddress(endpoint) == pool.CanonicalAddress(k.endpoint) {
		k.served.Store(asPicked)
		return
	}
	s := &serving{endpoint: printable(endpoint, maxEndpoint)}
	if pod, address, moved := k.picker.cfg.Pool.Reassign(&k.reservation, endpoint); moved {
		s.pod, s.endpoint = pod, address
	}
	k.served.Store(s)
}

// credit notes in the outcome who served.
func (k *Pick) credit(o *record.Outcome) {
	s := k.served.Load()
	switch {
	case s == nil:
		return
	case s == asPicked:
		o.ServedEndpoint = k.endpoint
		return
	}
	o.ServedEndpoint = s.endpoint
	if s.pod != "" {
		o.Attempts = []explain.Attempt{
			{Pod: k.pod, Endpoint: k.endpoint, Error: explain.MovedByGateway},
			{Pod: s.pod, Endpoint: s.endpoint},
		}
	}
}

// printable is a text from outside as it may stand anywhere: printable ASCII, at
// most limit bytes.
func printable(text string, limit int) string {
	text = text[:min(len(text), limit)]
	odd := func(r rune) bool { return r < ' ' || r > '~' }
	if strings.IndexFunc(text, odd) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if odd(r) {
			return '?'
		}
		return r
	}, text)
}
