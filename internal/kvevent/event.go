package kvevent

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// A Batch is what one message of an engine says. Its events apply in order:
// blocks that were evicted to make room come before those that needed it.
type Batch struct {
	At      time.Time // by the engine's clock; zero: it did not say
	Rank    int       // the data parallel rank; -1: it did not say
	Events  []Event
	Skipped int   // events of unknown types, and such as could not be read
	Reason  error // why the first of these was skipped, an *[Error]
}

// Kind is what happened.
type Kind uint8

// The kinds of events.
const (
	Stored Kind = iota
	Removed
	Cleared // everything of the rank, in all tiers and groups
)

func (k Kind) String() string {
	switch k {
	case Stored:
		return "stored"
	case Removed:
		return "removed"
	case Cleared:
		return "cleared"
	default:
		return "unknown"
	}
}

// Tier is where the blocks are.
type Tier uint8

// The tiers. Engines that name none mean the GPU, and vLLM calls it that on a
// CPU as well. External is another machine's memory or a shared store.
const (
	GPU Tier = iota
	CPU
	Disk
	External
	OtherTier
)

func (t Tier) String() string {
	switch t {
	case GPU:
		return "gpu"
	case CPU:
		return "cpu"
	case Disk:
		return "disk"
	case External:
		return "external"
	case OtherTier:
		return "other"
	default:
		return "unknown"
	}
}

// Attention says whether a group's blocks hold a prefix without holes.
type Attention uint8

// Full: the group keeps every block of a prefix. Sparse: it keeps a window or a
// state, and its events may name fewer blocks than they have tokens for.
const (
	Full Attention = iota
	Sparse
)

// An Event is one change of an engine's cache. Hashes are the engine's own,
// opaque ids of 64 bits: the last 8 bytes, big endian, of those that are bytes,
// and the two's complement of signed ones.
type Event struct {
	Kind      Kind
	Hashes    []uint64
	Parent    uint64 // hash of the block before Hashes[0]
	HasParent bool   // false: Hashes[0] is the first block of its chain
	Tokens    []uint32
	BlockSize int // in tokens; 0: the event has hashes alone

	// LoRA is the adapter. It is "" and LoRAID is not -1 when the engine gives
	// a number and no name: these blocks are not the base model's either.
	LoRA   string
	LoRAID int64 // -1: none

	Tier      Tier
	Group     int // KV cache group, part of a block's identity; -1: not said
	Attention Attention
	Window    int // tokens that a sliding window keeps; 0: not said

	// SaltHash is the hex of the first 16 bytes of the SHA-256 of the cache
	// salt, "" without one. Only the event with a chain's first block tells it
	// (SGLang: may tell it on every one).
	SaltHash string
	// Media is what else than tokens made the blocks' hashes: images and other
	// inputs, in the order of blocks.
	Media []Media

	// Salt is what [Append] writes as cache salt. Decode leaves it empty.
	Salt string
}

// Media says that content other than tokens is in a block: two blocks of equal
// tokens and different media are different blocks.
type Media struct {
	Block int    // index in Event.Hashes
	Hash  uint64 // MediaHash of the engine's identifier

	// ID is what [Append] writes as identifier. Decode leaves it empty.
	ID string
}

// MediaHash is the form of a multimodal identifier in [Media]: the first 8
// bytes, big endian, of its SHA-256.
func MediaHash(identifier []byte) uint64 {
	sum := sha256.Sum256(identifier)
	return binary.BigEndian.Uint64(sum[:])
}

// Complete reports whether the event has all tokens of all its blocks, of a
// group that keeps whole prefixes. Only such a one can be indexed by content;
// hashes alone and sparse groups can't.
func (e *Event) Complete() bool {
	return e.Attention == Full && e.BlockSize > 0 &&
		len(e.Tokens)%e.BlockSize == 0 && len(e.Tokens)/e.BlockSize == len(e.Hashes)
}
