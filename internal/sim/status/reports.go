package status

import (
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// Reports makes reports of at most limit blocks: removals first, then the stored
// blocks as chains, parents before children. Only the first can be full.
func Reports(base report.Report, changes vllm.Changes, limit int) []*report.Report {
	base.Full = changes.Full
	var parts []*report.Report
	for {
		part := base
		base.Full = false
		n := min(limit, len(changes.Removed))
		part.Removed, changes.Removed = changes.Removed[:n], changes.Removed[n:]
		n = min(limit-n, len(changes.Stored))
		part.Chains, changes.Stored = chains(changes.Stored[:n]), changes.Stored[n:]
		parts = append(parts, &part)
		if len(changes.Removed)+len(changes.Stored) == 0 {
			return parts
		}
	}
}

// chains joins blocks that follow one another.
func chains(stored []vllm.StoredBlock) []report.Chain {
	var out []report.Chain
	for i, b := range stored {
		if i > 0 && !b.First && b.Parent == stored[i-1].Hash {
			last := &out[len(out)-1]
			last.Blocks = append(last.Blocks, b.Hash)
			continue
		}
		c := report.Chain{Adapter: b.Root.Adapter, SaltHash: b.Root.SaltHash, Root: b.First, Blocks: []uint64{b.Hash}}
		if !b.First {
			c.Parent = b.Parent
		}
		out = append(out, c)
	}
	return out
}
