package vllm

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// A Root is what separates caches that share nothing: the base model is the
// engine's, adapter and salt are the request's.
type Root struct {
	Adapter  string
	SaltHash string
	Salt     string // in the clear, for events; "" when the request did not give it
	hash     uint64
}

// newRoot hashes model, 0x00, adapter, 0x00, saltHash.
func newRoot(model, adapter, saltHash string) *Root {
	text := make([]byte, 0, len(model)+len(adapter)+len(saltHash)+2)
	text = append(append(text, model...), 0)
	text = append(append(text, adapter...), 0)
	text = append(text, saltHash...)
	return &Root{Adapter: adapter, SaltHash: saltHash, hash: xxhash.Sum64(text)}
}

// fingerprint hashes the parent's fingerprint and the block's ids, all little
// endian. It repeats what internal/prefix does, on purpose: two independent
// implementations that agree are worth more than one that agrees with itself.
func fingerprint(parent uint64, tokens *[TokensPerBlock]uint32) uint64 {
	var buf [8 + 4*TokensPerBlock]byte
	binary.LittleEndian.PutUint64(buf[:], parent)
	for i, id := range tokens {
		binary.LittleEndian.PutUint32(buf[8+4*i:], id)
	}
	return xxhash.Sum64(buf[:])
}

// appendFingerprints chains the whole blocks of tokens behind parent.
func appendFingerprints(dst []uint64, parent uint64, tokens []uint32) []uint64 {
	for len(tokens) >= TokensPerBlock {
		parent = fingerprint(parent, (*[TokensPerBlock]uint32)(tokens))
		dst = append(dst, parent)
		tokens = tokens[TokensPerBlock:]
	}
	return dst
}

// mix64 is the finaliser of splitmix64.
func mix64(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
