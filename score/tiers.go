package score

import (
	"strconv"
	"strings"
)

// TierBlocks is a part of a cache match: the blocks in tiers of one weight that
// follow those of heavier tiers.
type TierBlocks struct {
	Tier   string // "gpu", "cpu", …; tiers of equal weight with a + between
	Blocks int    // beyond those of the parts before
	Weight float64
}

// TierValue is what the parts of a cache match come to, in blocks: what
// Cache.Value is where a pod has CacheTiers. Bits are the same on all platforms.
func TierValue(parts []TierBlocks) (blocks float64) {
	for i := range parts {
		blocks += float64(parts[i].Weight * float64(parts[i].Blocks)) // see composite
	}
	return blocks
}

// tiersText is the parts in words, "12 on GPU, 6 more on CPU × 0.5".
func tiersText(parts []TierBlocks) string {
	var b strings.Builder
	for i := range parts {
		t := &parts[i]
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(t.Blocks))
		if i > 0 {
			b.WriteString(" more")
		}
		b.WriteString(" on " + processors.Replace(t.Tier))
		if t.Weight != 1 {
			b.WriteString(" × " + strconv.FormatFloat(t.Weight, 'g', -1, 64))
		}
	}
	return b.String()
}

var processors = strings.NewReplacer("gpu", "GPU", "cpu", "CPU")
