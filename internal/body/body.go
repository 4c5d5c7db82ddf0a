// Package body accounts for the memory that request bodies hold.
//
// The one idea: memory is taken from a [Budget] before it is used and given back
// once, so that many large requests at the same time are refused instead of
// ending the process. Whoever holds a body knows how much it has taken; the
// budget only knows the sum. It does not read, keep or free anything.
package body

import "sync/atomic"

// Budget is memory in bytes that may be held at once. It is safe for concurrent
// use.
type Budget struct {
	size int64
	used atomic.Int64
}

// NewBudget makes a budget of size bytes.
func NewBudget(size int64) *Budget { return &Budget{size: size} }

// Take takes n bytes, or none and reports false when so much is not left.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.size {
		b.used.Add(-n)
		return false
	}
	return true
}

// Give gives n bytes back that were taken.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Used is how many bytes are taken now.
func (b *Budget) Used() int64 { return b.used.Load() }
