package kvevent

import (
	"errors"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// A reader walks over a payload. Errors are faults; msgp's own are not passed
// on, because some of them repeat the value.
type reader struct {
	buf    []byte // what is left
	limits *Limits
	index  int // of the list's element that could not be read, else -1
}

// fail names the fault of the value at the front, which is no want. A value of
// the wanted type that could not be read was cut off.
func (r *reader) fail(want string, types ...msgp.Type) error {
	have := msgp.NextType(r.buf)
	switch {
	case len(r.buf) == 0 || slices.Contains(types, have):
		return faultShort
	case have == msgp.InvalidType:
		return faultInvalid
	default:
		return fault("want " + want + ", have " + have.String())
	}
}

// null reads a nil if there is one.
func (r *reader) null() bool {
	if !msgp.IsNil(r.buf) {
		return false
	}
	r.buf = r.buf[1:]
	return true
}

// array reads the header of an array whose elements are all there, each being
// one byte at least.
func (r *reader) array() (int, error) {
	n, rest, err := msgp.ReadArrayHeaderBytes(r.buf)
	if err != nil {
		return 0, r.fail("an array", msgp.ArrayType)
	}
	if uint64(n) > uint64(len(rest)) {
		return 0, faultBig
	}
	r.buf = rest
	return int(n), nil
}

// mapping reads the header of a map, as array does.
func (r *reader) mapping() (int, error) {
	n, rest, err := msgp.ReadMapHeaderBytes(r.buf)
	if err != nil {
		return 0, r.fail("a map", msgp.MapType)
	}
	if 2*uint64(n) > uint64(len(rest)) {
		return 0, faultBig
	}
	r.buf = rest
	return int(n), nil
}

// text reads a string. It stays the payload's.
func (r *reader) text() ([]byte, error) {
	s, rest, err := msgp.ReadStringZC(r.buf)
	if err != nil {
		return nil, r.fail("a string", msgp.StrType)
	}
	if len(s) > r.limits.StringBytes {
		return nil, faultLong
	}
	if !utf8.Valid(s) {
		return nil, faultUTF8
	}
	r.buf = rest
	return s, nil
}

// key reads a map's key; one that is no string has no meaning, and is nil.
func (r *reader) key() ([]byte, error) {
	if msgp.NextType(r.buf) == msgp.StrType {
		return r.text()
	}
	return nil, r.skip(r.limits.Depth)
}

// integer reads an integer from low to high.
func (r *reader) integer(low, high int64) (int64, error) {
	v, rest, err := msgp.ReadInt64Bytes(r.buf)
	if err != nil {
		if _, ok := errors.AsType[msgp.UintOverflow](err); ok {
			return 0, faultRange
		}
		return 0, r.fail("an integer", msgp.IntType, msgp.UintType)
	}
	if v < low || v > high {
		return 0, faultRange
	}
	r.buf = rest
	return v, nil
}

// optional reads a count up to limit; nil is absent.
func (r *reader) optional(absent, limit int) (int, error) {
	if r.null() {
		return absent, nil
	}
	v, err := r.integer(0, int64(limit))
	return int(v), err
}

// number reads a number of any kind; nil is NaN.
func (r *reader) number() (float64, error) {
	var (
		v    float64
		rest []byte
		err  error
	)
	switch msgp.NextType(r.buf) {
	case msgp.NilType:
		v, rest = math.NaN(), r.buf[1:]
	case msgp.Float32Type:
		var single float32
		single, rest, err = msgp.ReadFloat32Bytes(r.buf)
		v = float64(single)
	case msgp.IntType, msgp.UintType:
		var whole int64
		whole, err = r.integer(math.MinInt64, math.MaxInt64)
		return float64(whole), err
	default:
		v, rest, err = msgp.ReadFloat64Bytes(r.buf)
	}
	if err != nil {
		return 0, r.fail("a number", msgp.Float32Type, msgp.Float64Type)
	}
	r.buf = rest
	return v, nil
}

// hashBytes is the part of a longer hash that is used.
const hashBytes = 8

// hash reads a block's hash.
func (r *reader) hash() (uint64, error) {
	var (
		h    uint64
		rest []byte
		err  error
	)
	switch msgp.NextType(r.buf) {
	case msgp.UintType:
		h, rest, err = msgp.ReadUint64Bytes(r.buf)
	case msgp.IntType:
		var signed int64
		signed, rest, err = msgp.ReadInt64Bytes(r.buf)
		h = uint64(signed)
	case msgp.BinType:
		return r.byteHash()
	default:
		return 0, r.fail("a hash, which is an integer or bytes")
	}
	if err != nil {
		return 0, faultShort
	}
	r.buf = rest
	return h, nil
}

func (r *reader) byteHash() (uint64, error) {
	b, rest, err := msgp.ReadBytesZC(r.buf)
	if err != nil {
		return 0, faultShort
	}
	if len(b) == 0 || len(b) > r.limits.StringBytes {
		return 0, faultRange
	}
	var h uint64
	for _, c := range b[max(0, len(b)-hashBytes):] {
		h = h<<8 | uint64(c)
	}
	r.buf = rest
	return h, nil
}

// hashes appends a list of hashes to dst.
func (r *reader) hashes(dst []uint64) ([]uint64, error) {
	n, err := r.list(r.limits.Hashes, len(dst), "block hashes")
	if err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, n)
	for i := range n {
		h, err := r.hash()
		if err != nil {
			r.index = i
			return dst, err
		}
		dst = append(dst, h)
	}
	return dst, nil
}

// tokens appends a list of token ids to dst.
func (r *reader) tokens(dst []uint32) ([]uint32, error) {
	n, err := r.list(r.limits.Tokens, len(dst), "token ids")
	if err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, n)
	for i := range n {
		id, rest, err := msgp.ReadUint32Bytes(r.buf)
		if err != nil {
			r.index = i
			if _, err := r.integer(0, math.MaxUint32); err != nil {
				return dst, err
			}
			return dst, faultInvalid
		}
		r.buf = rest
		dst = append(dst, id)
	}
	return dst, nil
}

// list reads the header of an array of at most limit elements, which come to
// the had of the batch.
func (r *reader) list(limit, had int, what string) (int, error) {
	n, err := r.array()
	switch {
	case err != nil:
		return 0, err
	case n > limit:
		return 0, over(what, limit)
	case n > batchFactor*limit-had:
		return 0, over(what+" in the batch", batchFactor*limit)
	default:
		return n, nil
	}
}

// skip passes over one value that is at depth arrays and maps.
func (r *reader) skip(depth int) error {
	var (
		n   int
		err error
	)
	switch msgp.NextType(r.buf) {
	case msgp.ArrayType:
		n, err = r.array()
	case msgp.MapType:
		n, err = r.mapping()
		n *= 2
	default:
		return r.skipScalar()
	}
	if err != nil {
		return err
	}
	if depth >= r.limits.Depth {
		return faultDeep
	}
	for range n {
		if err := r.skip(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) skipScalar() error {
	rest, err := msgp.Skip(r.buf)
	switch {
	case err == nil:
		r.buf = rest
		return nil
	case len(r.buf) > 0 && msgp.NextType(r.buf) == msgp.InvalidType:
		return faultInvalid
	default:
		return faultShort
	}
}

// raw passes over one value and returns its bytes.
func (r *reader) raw(depth int) ([]byte, error) {
	start := r.buf
	if err := r.skip(depth); err != nil {
		return nil, err
	}
	return start[:len(start)-len(r.buf)], nil
}
