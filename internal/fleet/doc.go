// Package fleet follows a picker's fleet: what was picked and how it went in the
// last 5, 60 and 300 seconds, what happened to the pods, and the verdict.
//
// The one idea: a decision costs a few additions into the bucket of the running
// second, and everything else is done once a second of the picker's clock, by one
// goroutine, on buckets that nobody writes to any more. The result is an
// [explain.Snapshot], which never changes and is handed to whoever asks.
//
//	decisions ──▶ bucket of this second ─┐ once a second
//	                     windows ◀───────┤
//	   pool, tree, streams ──▶ history ──┴──▶ snapshot ──▶ verdict ──▶ readers
//
// Whoever follows along is a [Reader]: it gets the newest snapshot and a line for
// every decision, when it is taken and when its request has ended. A reader that is
// slow loses the oldest lines, which are counted; it never holds up a decision.
//
// # Bounds
//
// Counts are kept for 2 × 4096 pods; what others do shows only in the totals. A pod
// that was busy costs about 200 bytes a second of the last minute, and 6 bytes a
// second of the four minutes before. Quantiles are right to an eighth.
//
// The package writes no metrics and serves no HTTP, and its rules are those of
// package explain.
package fleet
