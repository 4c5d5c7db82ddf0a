package record

import (
	"math"

	"github.com/eppctl/eppctl/explain"
)

// Gateway is what is known of a gateway in front that asks the picker.
type Gateway struct {
	Kind string // "envoy"
	// RequestBody and ResponseBody are its modes of sending bodies to the picker,
	// in its own words, such as FULL_DUPLEX_STREAMED; "" when it did not tell.
	RequestBody, ResponseBody string
}

// The gateway's part of a record is there with flagGateway only, behind all
// others: counts, then texts of a byte of length each (the gateway's kind, its
// body modes, and the first addresses of its subset).
const (
	gwSubset    = 0 // u16, addresses in the subset; noSubset when it gave none
	gwUnknown   = 2 // u16, how many of them no pod has
	gwFallbacks = 4 // u8
	gwTexts     = 5

	maxGatewayText = 32 // bytes of a kind or a mode
	maxShown       = 8  // addresses of a subset that are kept
	maxAddress     = 64 // and how many bytes of each
	noSubset       = 1<<16 - 1
)

// fronted reports whether a gateway in front told anything.
func (e *Entry) fronted() bool { return e.Gateway != nil || e.Subset != nil || e.Fallbacks > 0 }

// shownSubset are the addresses that are kept.
func (e *Entry) shownSubset() []string { return e.Subset[:min(len(e.Subset), maxShown)] }

func (e *Entry) gatewayTexts() (texts [3]string) {
	if g := e.Gateway; g != nil {
		texts = [...]string{g.Kind, g.RequestBody, g.ResponseBody}
	}
	return texts
}

// gatewaySize is how many bytes the gateway's part takes, and the outcome more
// with it.
func (e *Entry) gatewaySize() int {
	if !e.fronted() {
		return 0
	}
	n := gwTexts + outGatewaySize
	for _, text := range e.gatewayTexts() {
		n += 1 + len(clip(text, maxGatewayText))
	}
	for _, address := range e.shownSubset() {
		n += 1 + len(clip(address, maxAddress))
	}
	return n
}

func (e *Entry) encodeGateway(b []byte) {
	subset := noSubset
	if e.Subset != nil {
		subset = min(len(e.Subset), noSubset-1)
	}
	le.PutUint16(b[gwSubset:], uint16(subset))
	le.PutUint16(b[gwUnknown:], uint16(min(e.SubsetUnknown, noSubset)))
	b[gwFallbacks] = uint8(min(e.Fallbacks, math.MaxUint8))
	at := gwTexts
	put := func(text string, limit int) {
		n := putString(b[at+1:], text, limit)
		b[at] = uint8(n)
		at += 1 + n
	}
	for _, text := range e.gatewayTexts() {
		put(text, maxGatewayText)
	}
	for _, address := range e.shownSubset() {
		put(address, maxAddress)
	}
}

// gateway reads the part back; nil when no gateway in front told anything.
func (v *view) gateway(p *parts, result *explain.Result) *explain.Gateway {
	b := p.gateway
	if len(b) == 0 {
		return nil
	}
	rest := b[gwTexts:]
	take := func() string {
		n := 1 + int(rest[0])
		text := valid(rest[1:n])
		rest = rest[n:]
		return text
	}
	g := &explain.Gateway{Kind: take(), RequestBody: take(), ResponseBody: take(), Fallbacks: []string{}}
	if n := int(le.Uint16(b[gwSubset:])); n != noSubset {
		g.Subset = &explain.Subset{Count: n, Unknown: int(le.Uint16(b[gwUnknown:])), Addresses: []string{}}
		for len(rest) > 0 {
			g.Subset.Addresses = append(g.Subset.Addresses, take())
		}
	}
	for _, i := range result.Order {
		if result.Index >= 0 && i != result.Index && len(g.Fallbacks) < int(b[gwFallbacks]) {
			g.Fallbacks = append(g.Fallbacks, v.roster.endpoint(i))
		}
	}
	return g
}
