// Package report is the wire of status reports: what a model server tells the
// picker about its cache and itself, every two seconds by default.
//
// The one idea: a report is small because it says what changed, and safe
// because a receiver can always tell that it missed something.
//
//	POST /v1/reports                      Authorization: Bearer <token>
//	{
//	  "pod": "sim-0",                     who; the endpoint's name in the pool
//	  "epoch": 1764472380000,             changes when the server restarts
//	  "seq": 7,                           1, 2, 3, … within an epoch
//	  "full": false,                      true: forget what you knew, this is all
//	  "model": "meta-llama/Llama-3.1-8B-Instruct",     the base model
//	  "blockSize": 16,                    tokens per block
//	  "removed": ["9d1f0c66a3b25e17"],    blocks that are gone
//	  "chains": [                         blocks that are there
//	    {"adapter": "", "saltHash": "",   whose root it is
//	     "parent": "",                    "" = the root, else the block before
//	     "blocks": ["52c8a5f1d3e9b704", "0b6d2c55f8a19e33"]}
//	  ],
//	  "adapters": ["fr"],                 LoRA adapters that are loaded
//	  "queueDepth": 3,                    requests waiting
//	  "gpuUtilization": 0.85,             0 to 1, mean since the last report
//	  "health": 1,                        0 to 1
//	  "takenAt": "2026-11-30T03:13:00Z"
//	}
//
// Blocks are fingerprints: 16 hex digits of xxHash64 over the parent's
// fingerprint (8 bytes, little endian) and the block's token ids (uint32,
// little endian). The parent of the first block is xxHash64 over the base
// model, 0x00, the adapter, 0x00, the salt's hash (the first 16 bytes of
// SHA-256(cache_salt) in hex, or nothing).
//
// Order: removals apply first, then chains, one after another; a chain whose
// parent is in the same report comes after it. A block that was removed and
// stored again since the last report stands in both.
//
// The answer is 200 with {"resync": false}, or true when the receiver has a gap
// or knows nothing of this epoch: then the next report must be full. Any other
// answer means that nothing was applied. A sender that gets no 200 must not
// assume either way, so its next report is full as well. A state that does not
// fit the limits of one report is sent as a full one and increments behind it.
//
// "queueDepth", "gpuUtilization" and "health" may be left out: unknown is not
// zero. The package knows the form only; what a gap means is the receiver's
// business.
package report

import "time"

// The limits of one report, which a sender keeps and a receiver enforces.
const (
	// MaxBytes is the largest body.
	MaxBytes = 16 << 20
	// MaxBlocks is how many blocks chains and removed may name together.
	MaxBlocks = 800_000
)

// A Report is one status report.
type Report struct {
	Pod            string
	Epoch          uint64 // below 2^53, as JSON readers need
	Seq            uint64
	Full           bool
	Model          string
	BlockSize      int // in tokens
	Chains         []Chain
	Removed        []uint64
	Adapters       []string
	QueueDepth     *int     // nil: unknown
	GPUUtilization *float64 // nil: unknown; may exceed 1 on the wire
	Health         *float64 // nil: unknown
	TakenAt        time.Time
}

// A Chain is a run of blocks, each the parent of the next.
type Chain struct {
	Adapter  string
	SaltHash string
	// Root says that the first block has no parent but the root of its model,
	// adapter and salt; Parent is then 0.
	Root   bool
	Parent uint64
	Blocks []uint64
}

// Blocks counts the fingerprints that the report names.
func (r *Report) Blocks() int {
	n := len(r.Removed)
	for i := range r.Chains {
		n += len(r.Chains[i].Blocks)
	}
	return n
}

// Reply is the answer to a report that was applied, or that could not be for
// want of the reports before it.
type Reply struct {
	Resync bool `json:"resync"`
}
