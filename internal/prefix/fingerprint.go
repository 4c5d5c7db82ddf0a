package prefix

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// saltBytes is how much of the SHA-256 of a cache salt enters the root: enough
// to keep tenants apart, and not the salt itself.
const saltBytes = 16

// parentBytes and tokenBytes are the sizes of what a fingerprint covers.
const (
	parentBytes = 8
	tokenBytes  = 4
)

// usualBlock is the block size that most engines use, and stackTokens the
// largest that [Fingerprints] hashes without allocating.
const (
	usualBlock  = 16
	stackTokens = 128
)

// SaltHash is the form in which a request's cache salt takes part in its root:
// the hex of the first 16 bytes of its SHA-256, or "" for no salt.
func SaltHash(salt string) string {
	if salt == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(salt))
	return hex.EncodeToString(sum[:saltBytes])
}

// Root is the parent of a chain's first block: xxHash64 over the base model,
// the adapter and the [SaltHash], with a zero byte between them. Absent ones
// are empty. Requests that differ in one of the three share no fingerprint.
func Root(model, adapter, saltHash string) uint64 {
	buf := make([]byte, 0, len(model)+len(adapter)+len(saltHash)+2)
	buf = append(buf, model...)
	buf = append(buf, 0)
	buf = append(buf, adapter...)
	buf = append(buf, 0)
	buf = append(buf, saltHash...)
	return xxhash.Sum64(buf)
}

// Fingerprints appends one fingerprint for each full block of blockSize tokens
// to dst: xxHash64 over the fingerprint before it (the root for the first) and
// the block's token ids, all little endian. A trailing partial block has none,
// and neither has anything when blockSize is not positive.
func Fingerprints(dst []uint64, root uint64, tokens []uint32, blockSize int) []uint64 {
	switch {
	case blockSize <= 0 || blockSize > len(tokens):
		return dst
	case blockSize == usualBlock:
		return fingerprintsOf16(dst, root, tokens)
	}
	var array [parentBytes + tokenBytes*stackTokens]byte
	buf := array[:]
	if blockSize > stackTokens {
		buf = make([]byte, parentBytes+tokenBytes*blockSize)
	}
	buf = buf[:parentBytes+tokenBytes*blockSize]
	parent := root
	for len(tokens) >= blockSize {
		binary.LittleEndian.PutUint64(buf, parent)
		for i, id := range tokens[:blockSize] {
			binary.LittleEndian.PutUint32(buf[parentBytes+tokenBytes*i:], id)
		}
		parent = xxhash.Sum64(buf)
		dst = append(dst, parent)
		tokens = tokens[blockSize:]
	}
	return dst
}

// fingerprintsOf16 is [Fingerprints] for the usual block size, written out:
// the copy of the tokens has to hide behind the hash of the block before, for
// which the next one waits.
func fingerprintsOf16(dst []uint64, parent uint64, tokens []uint32) []uint64 {
	var b [parentBytes + tokenBytes*usualBlock]byte
	for len(tokens) >= usualBlock {
		t := (*[usualBlock]uint32)(tokens)
		binary.LittleEndian.PutUint64(b[0:], parent)
		binary.LittleEndian.PutUint64(b[8:], uint64(t[0])|uint64(t[1])<<32)
		binary.LittleEndian.PutUint64(b[16:], uint64(t[2])|uint64(t[3])<<32)
		binary.LittleEndian.PutUint64(b[24:], uint64(t[4])|uint64(t[5])<<32)
		binary.LittleEndian.PutUint64(b[32:], uint64(t[6])|uint64(t[7])<<32)
		binary.LittleEndian.PutUint64(b[40:], uint64(t[8])|uint64(t[9])<<32)
		binary.LittleEndian.PutUint64(b[48:], uint64(t[10])|uint64(t[11])<<32)
		binary.LittleEndian.PutUint64(b[56:], uint64(t[12])|uint64(t[13])<<32)
		binary.LittleEndian.PutUint64(b[64:], uint64(t[14])|uint64(t[15])<<32)
		parent = xxhash.Sum64(b[:])
		dst = append(dst, parent)
		tokens = tokens[usualBlock:]
	}
	return dst
}

// WithMedia is the fingerprint of a block that other content than tokens is in,
// an image for instance: xxHash64 over the one of its tokens and the hash of the
// content, both little endian. A block with several takes them one after
// another, in their order.
func WithMedia(fp, media uint64) uint64 {
	var b [2 * parentBytes]byte
	binary.LittleEndian.PutUint64(b[:], fp)
	binary.LittleEndian.PutUint64(b[parentBytes:], media)
	return xxhash.Sum64(b[:])
}

// formatDigits is the length of a fingerprint in JSON and on screens.
const formatDigits = 16

// Format writes a fingerprint as 16 hex digits, the form it has in JSON.
func Format(fp uint64) string {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], fp)
	return hex.EncodeToString(raw[:])
}

// Parse reads what [Format] wrote: exactly 16 hex digits of either case.
func Parse(s string) (uint64, error) {
	if len(s) != formatDigits {
		return 0, fmt.Errorf("fingerprint %.20q has %d characters: want %d hex digits", s, len(s), formatDigits)
	}
	fp, err := strconv.ParseUint(s, 16, 64)
	if err != nil || s[0] == '+' {
		return 0, fmt.Errorf("fingerprint %q: want %d hex digits", s, formatDigits)
	}
	return fp, nil
}
