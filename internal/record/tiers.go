package record

import "github.com/eppctl/eppctl/explain"

// The tiers of cache matches are there with flagTiers only: their length (u32,
// itself left out), then for each part of a match the pod, its blocks and weight,
// and the tier's name. A pod's parts keep their order.
const (
	tierPod    = 0 // u16
	tierBlocks = 2 // i32
	tierWeight = 6 // f64
	tierName   = 14
	tierHead   = 15 // and the name, whose length (u8) is the last of these

	tiersLength = 4
	maxTierName = 64
)

// tierBytes is how many bytes that part takes, its length included.
func (e *Entry) tierBytes() (n int) {
	pods := e.Inputs.Pods
	for i := range pods {
		for k := range pods[i].CacheTiers {
			n += tierHead + len(clip(pods[i].CacheTiers[k].Tier, maxTierName))
		}
	}
	if n > 0 {
		n += tiersLength
	}
	return n
}

func (e *Entry) encodeTiers(b []byte) {
	le.PutUint32(b, uint32(len(b)-tiersLength))
	b = b[tiersLength:]
	pods := e.Inputs.Pods
	for i := range pods {
		for _, t := range pods[i].CacheTiers {
			le.PutUint16(b[tierPod:], uint16(i))
			putInt32(b[tierBlocks:], t.Blocks)
			putFloat(b[tierWeight:], t.Weight)
			n := putString(b[tierHead:], t.Tier, maxTierName)
			b[tierName] = uint8(n)
			b = b[tierHead+n:]
		}
	}
}

// tiersOf are the parts of each candidate's match, by its index.
func (p *parts) tiersOf() map[int][]explain.TierBlocks {
	var out map[int][]explain.TierBlocks
	for b := p.tiers; len(b) > 0; {
		if out == nil {
			out = map[int][]explain.TierBlocks{}
		}
		pod, n := int(le.Uint16(b[tierPod:])), tierHead+int(b[tierName])
		out[pod] = append(out[pod], explain.TierBlocks{
			Tier: valid(b[tierHead:n]), Blocks: getInt32(b[tierBlocks:]), Weight: getFloat(b[tierWeight:]),
		})
		b = b[n:]
	}
	return out
}
