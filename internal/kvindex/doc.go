// Package kvindex knows what each engine rank holds in its KV cache, learnt
// from its KV events, and keeps the prefix tree up to date with it.
//
// # The one idea
//
// An engine's block hashes are opaque ids, good for one thing: to say which
// block was removed, or which one others hang on. What a request is matched by
// are our own chained fingerprints, and the token ids in an event are enough to
// compute them. So a [Rank] is one table from the engine's hash to our
// fingerprint:
//
//	stored 71 → 72 73, tokens     fingerprint(71), tokens ─▶ two fingerprints
//	                              table 72, 73; tree: the slot holds both
//	removed 73                    table 73 ─▶ fingerprint; tree: no longer
//
// Fingerprints are made at the engine's own block size, which the events tell,
// and a request is fingerprinted at every size in use. So a match is never of
// half a block, of the engine's or of ours: n blocks of 64 tokens are 4n of 16,
// and two of 8 one of 16. Sizes that don't divide each other are not indexed.
//
// # Copies
//
// An engine may hold a block several times: vLLM recomputes and announces the
// last block of a prompt that ends with it, and each copy's eviction is an event
// of its own. So each block has a count of copies for each place, a tier and a
// KV cache group; it is held as long as one in a tier that counts is left. A chain
// that is announced again from its start is not counted again: vLLM's full
// reports look like this, nothing tells them from copies, and a block that is
// missed costs less than one that is claimed for ever.
//
// # Tiers
//
// A block on the GPU is worth more than one that has to be fetched from the CPU's
// memory or a disk. The tiers in use are put in levels by their weight, each with
// all tiers of the one before ([TierWeights.Levels]), and each level has a slot of
// the tree. So a match on every level is at hand, and what the blocks beyond the
// GPU's are worth follows:
//
//	gpu 1, cpu 0.5, disk 0.5      level 0: gpu             12 blocks
//	                              level 1: gpu, cpu, disk  18 blocks  12 + 0.5·6 = 15
//
// With one weight, as by default, there is one level and one slot.
//
// # What was missed
//
// Batches are numbered. A jump means that some are lost: the rank is degraded,
// and what it claimed is kept or cleared ([OnGap]). Where the engine replays
// batches, those behind the jump wait for the replay, so that everything applies
// in its order and nothing twice. A number that falls means that the engine
// began anew with an empty cache. Events that hang on a block nobody knows are
// kept aside, within a bound, until it comes. Where an engine's answer shows
// that a degraded rank claims too much, [Rank.Correct] takes the claim back.
//
// # Cost
//
// A block takes 24 bytes of an open-addressing table that is filled by 60 to
// 80 %, so 30 to 40 bytes beside the tree, which has it once on each level that it
// is on. Tokens are kept only for blocks whose parent is missing; salts never
// arrive here.
//
// # What it does not do
//
// It opens no connection and starts no goroutine. Each rank has its own slots of
// the tree: that an endpoint matches as its best rank does is for the pool to
// say, and so is what its match is worth. Groups of sliding windows or states are
// left out: where an engine has some, its true hit may be shorter than the match,
// and [Stats.Hybrid] says so.
package kvindex
