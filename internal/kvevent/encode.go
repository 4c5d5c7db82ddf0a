package kvevent

import (
	"errors"
	"fmt"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// Append writes a batch as an engine of the generation would, and returns dst
// with it. It is for simulated engines and tests: salts and multimodal
// identifiers go out in the clear, from Event.Salt and Media.ID.
func Append(dst []byte, g Generation, b *Batch) ([]byte, error) {
	if int(g) >= len(generationNames) {
		return nil, fmt.Errorf("encode events: unknown generation %d", g)
	}
	size := uint32(envelopeFields)
	if g == ArrayV08 {
		size--
	}
	dst = msgp.AppendArrayHeader(dst, size)
	dst = msgp.AppendFloat64(dst, seconds(b.At))
	dst = msgp.AppendArrayHeader(dst, uint32(len(b.Events)))
	for i := range b.Events {
		e := &b.Events[i]
		if err := e.writable(); err != nil {
			return nil, fmt.Errorf("encode events[%d]: %w", i, err)
		}
		dst = appendEvent(dst, g, e)
	}
	if g != ArrayV08 {
		dst = appendNumber(dst, int64(b.Rank), 0)
	}
	return dst, nil
}

func (e *Event) writable() error {
	switch {
	case e.Kind > Cleared || e.Tier > OtherTier || e.Attention > Sparse:
		return errors.New("unknown kind, tier or attention")
	case e.SaltHash != "" && e.Salt == "":
		return errors.New("a salt's hash can't be written, the salt can")
	}
	for _, m := range e.Media {
		if m.ID == "" || m.Block < 0 || m.Block >= len(e.Hashes) {
			return errors.New("media need an identifier and the index of a block")
		}
	}
	return nil
}

func appendEvent(dst []byte, g Generation, e *Event) []byte {
	name := [...]string{Stored: typeStored, Removed: typeRemoved, Cleared: typeCleared}[e.Kind]
	if g.maps() {
		keys := g.keys(make([]field, 0, len(fieldNames)), e)
		dst = msgp.AppendMapHeader(dst, uint32(1+len(keys)))
		dst = msgp.AppendString(dst, fieldType.name())
		dst = msgp.AppendString(dst, name)
		for _, f := range keys {
			dst = appendField(msgp.AppendString(dst, f.name()), g, e, f)
		}
		return dst
	}
	order := g.order(e.Kind)
	size := 1 + len(order)
	if g.salted(e) {
		size++
	}
	dst = msgp.AppendString(msgp.AppendArrayHeader(dst, uint32(size)), name)
	for _, f := range order {
		dst = appendField(dst, g, e, f)
	}
	if g.salted(e) {
		dst = msgp.AppendString(msgp.AppendMapHeader(dst, 1), fieldCacheSalt.name())
		dst = appendField(dst, g, e, fieldCacheSalt)
	}
	return dst
}

func appendField(dst []byte, g Generation, e *Event, f field) []byte {
	switch f {
	case fieldHashes:
		return appendHashes(dst, g, e.Hashes)
	case fieldParent:
		if e.HasParent {
			return appendHash(dst, g, e.Parent)
		}
	case fieldTokens:
		return appendTokens(dst, e.Tokens)
	case fieldBlockSize:
		return appendNumber(dst, int64(e.BlockSize), 0)
	case fieldLoRAID:
		return appendNumber(dst, e.LoRAID, 1)
	case fieldMedium:
		return msgp.AppendString(dst, g.medium(e.Tier))
	case fieldLoRAName:
		return appendText(dst, e.LoRA)
	case fieldExtraKeys:
		return appendExtraKeys(dst, g, e)
	case fieldGroup:
		return appendNumber(dst, int64(e.Group), 0)
	case fieldSpecKind:
		return msgp.AppendString(dst, [...]string{Full: "full_attention", Sparse: "sliding_window"}[e.Attention])
	case fieldWindow:
		return appendNumber(dst, int64(e.Window), 1)
	case fieldCacheSalt:
		return appendText(dst, e.Salt)
	default: // no generation has a value for the others
	}
	return msgp.AppendNil(dst)
}

func appendHashes(dst []byte, g Generation, hashes []uint64) []byte {
	dst = msgp.AppendArrayHeader(dst, uint32(len(hashes)))
	for _, h := range hashes {
		dst = appendHash(dst, g, h)
	}
	return dst
}

func appendTokens(dst []byte, tokens []uint32) []byte {
	dst = msgp.AppendArrayHeader(dst, uint32(len(tokens)))
	for _, id := range tokens {
		dst = msgp.AppendUint32(dst, id)
	}
	return dst
}

func appendExtraKeys(dst []byte, g Generation, e *Event) []byte {
	if len(e.Hashes) == 0 {
		return msgp.AppendNil(dst)
	}
	dst = msgp.AppendArrayHeader(dst, uint32(len(e.Hashes)))
	for block := range e.Hashes {
		dst = appendExtraEntry(dst, g, e, block)
	}
	return dst
}

func appendExtraEntry(dst []byte, g Generation, e *Event, block int) []byte {
	n := 0
	if e.LoRA != "" {
		n++
	}
	for _, m := range e.Media {
		if m.Block == block {
			n++
		}
	}
	salted := block == 0 && e.Salt != "" && !e.HasParent
	if salted {
		n++
	}
	if n == 0 {
		return msgp.AppendNil(dst)
	}
	dst = msgp.AppendArrayHeader(dst, uint32(n))
	if e.LoRA != "" {
		dst = msgp.AppendString(dst, e.LoRA)
	}
	for _, m := range e.Media {
		if m.Block != block {
			continue
		}
		if g != ArrayV16 {
			dst = msgp.AppendArrayHeader(dst, 2)
		}
		dst = msgp.AppendString(dst, m.ID)
		if g != ArrayV16 {
			dst = msgp.AppendInt(dst, 0)
		}
	}
	if salted {
		dst = msgp.AppendString(dst, e.Salt)
	}
	return dst
}

// appendHash writes unsigned numbers, as vLLM, or signed ones.
func appendHash(dst []byte, g Generation, h uint64) []byte {
	if g.sglang() && int64(h) < 0 {
		return msgp.AppendInt64(dst, int64(h))
	}
	return msgp.AppendUint64(dst, h)
}

// appendNumber writes a number that is nil below the least one there is.
func appendNumber(dst []byte, n, least int64) []byte {
	if n < least {
		return msgp.AppendNil(dst)
	}
	return msgp.AppendUint64(dst, uint64(n))
}

func appendText(dst []byte, s string) []byte {
	if s == "" {
		return msgp.AppendNil(dst)
	}
	return msgp.AppendString(dst, s)
}

// seconds is the inverse of instant.
func seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.Unix()) + float64(at.Nanosecond())/float64(time.Second)
}
