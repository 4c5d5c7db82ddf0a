// Package record remembers decisions: in a bounded ring in memory, and in files
// of JSON Lines when asked to.
//
// The one idea: recording is always on, so it must be nearly free. [Ring.Append]
// copies what a decision was taken from into flat bytes, about 74 a candidate,
// without allocating and without a pointer to live state; an [explain.Record] is
// made of them only when somebody asks. The bytes hold every input, so what is
// read back decides again to the same bits.
//
// # Memory
//
// The ring is a queue of slabs of at most 1 MiB, each written from the front
// with records and from the back with their offsets, so that a [Handle] (slab and
// slot) finds its record without a hash table, and a walk goes newest first. The
// oldest slab leaves when the next one would not fit. Names of pods and weights
// stand once in tables beside the slabs, counted against the same budget, and
// leave with the last slab that refers to them. Space is claimed under a lock and
// filled outside it.
//
// # What is rounded or cut
//
// Values and scores keep their bits. Ages are kept in milliseconds and up to 49
// days, stage timings in units of 10 ns and up to 42 s (the wait for a body in µs
// and up to 71 minutes), counts up to 2³¹−1, loaded adapters and adapter slots up
// to 65,535; none of them decides anything. Notes and the details of custom scorers
// are cut to 200 bytes, and left out when a record would not fit into a slab with
// them; a model's or adapter's name is cut to 255 bytes, a request ID to 128. Of the
// addresses that a gateway in front allows the first 8 are kept.
//
// # Files
//
// A file is closed at [DefaultFileBytes] and then gets an index beside it
// ([WriteIndex]), so that of a million decisions the one with an ID, or those of a
// time, are found without reading the rest. Whoever reads files of his own does so
// line by line ([Reader], [Decode]) or from their end ([WalkFile]).
//
// # Secrets
//
// Fingerprints of prompts leave the process only as HMACs under the record key;
// there is no way to read the key or a plain fingerprint from outside. Prompts,
// header values, keys and salts never get here.
//
// # What this package does not do
//
// It does not explain (package explain does), serve HTTP, or delete files.
package record
