// Package prefix knows which pod holds which prefix in its KV cache: the
// fingerprints of token blocks, and the tree that maps them to pods.
//
// # The one idea
//
// Fingerprints are chained: a block's fingerprint covers the fingerprint before
// it, so it names the whole prefix that ends with the block. A radix tree needs
// a table of children in every node only because an edge label means nothing
// without its node. Here it does, so one global index from fingerprint to
// location takes the place of all of them, and the tree below it is no more
// than runs: stretches of consecutive blocks in one array, in which a lookup
// compares instead of searching. 256 blocks of which 64 are shared with other
// chains cost two searches and 256 comparisons.
//
//	query   a b c d e f g h
//	        │       │
//	index   a→1.0   e→2.0            one word a block: tag, run, offset
//	        │       │
//	run 1 ┌─▼───────┐   run 2 ┌─▼───────┐
//	      │ a b c d │         │ e f g h │      compared with the query
//	      └─────────┘         └─────────┘
//	pod 3  ▀▀▀▀▀▀▀             ▀▀▀▀▀         spans: "pod 3 holds [0, 4)",
//	pod 7  ▀▀▀▀▀               ▀▀▀▀▀▀▀       one word each
//
// What a pod holds is thus a set of fingerprints, and a lookup counts how many
// blocks from the start of the query are in it. Order of arrival, parents and
// duplicates change the layout alone, never an answer: a report that lies about
// its order can't falsify what other pods hold.
//
// # Layout
//
// The index is split over 1024 small open-addressing tables of cache-line
// buckets (seven words and a count of the entries that had to go further, so
// that a deletion leaves no tombstone). A word holds enough bits of the hash to
// grow or shrink its table without looking at a fingerprint, which takes some
// microseconds. A run holds at most 1024 blocks; its cells are written once and
// never change. A block that nobody holds any more leaves the index and stays
// as a dead cell, which comes back to life when the block returns behind its
// predecessor; a run of which less than half lives is copied without the dead
// ones, and one without any is dropped. Per block that is 8 bytes of cell and
// 14 to 21 bytes of index, plus 48 bytes and the spans per run.
//
// # Why a lookup never waits
//
// Lookups take no lock and write nothing that is shared. Writers, one at a time
// under a mutex, make every change visible by one atomic store on top of
// finished data: a cell before the length that shows it, a run before the index
// word that points at it, a longer span before the shorter one disappears. What
// has to move (a run that is copied, a table that grows) is built beside the
// old, which stays as it was and which the garbage collector keeps for those
// who still read it. A lookup verifies each index word against the cell it
// points at; only when that fails and the word, the run or the table has been
// replaced meanwhile does it look again, so each repetition means that a
// copy of that very spot was finished in between.
//
// Clearing a pod is one store as well: spans carry an epoch, and those of
// another epoch than the pod's don't count. Their removal, and everything else
// that has to visit many runs or blocks, goes in pieces of some ten
// microseconds between which other writers get their turn.
//
// # What it does not do
//
// It hashes no text, knows no engine's own block hashes and no time: whether
// what a pod reported is old is for its caller to judge. It is no snapshot: a
// lookup beside a writer sees some of the writer's changes to a pod and not
// others, each of them whole.
package prefix
