package kvevent

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/tinylib/msgp/msgp"
)

// saltBytes is how much of a salt's SHA-256 is its form here: as much as the
// fingerprints of requests take.
const saltBytes = 16

// saltHash is the form of a salt in [Event].
func (d *Decoder) saltHash(salt []byte) string {
	if len(salt) == 0 {
		return ""
	}
	sum := sha256.Sum256(salt)
	var digits [2 * saltBytes]byte
	hex.Encode(digits[:], sum[:saltBytes])
	return d.name(digits[:])
}

const faultExtra fault = "has not one entry for each block hash"

// extra reads extra_keys: an entry for each block, nil or a list of what else
// went into the block's hash, in this order: the adapter's name, multimodal
// identifiers (each with its offset; bare in 0.18), the cache salt (the first
// block of a chain alone), the hash of embeddings that were given as prompt.
//
// What can't be told is taken for media, so that nobody takes the block for one
// of tokens alone.
func (d *Decoder) extra(w *wireEvent) error {
	r := &reader{buf: w.extraKeys, limits: &d.limits, index: -1}
	if r.null() {
		return nil
	}
	n, err := r.array()
	if err != nil {
		return err
	}
	if n > 0 && n != len(w.Hashes) {
		return faultExtra
	}
	start := len(d.media)
	for block := range n {
		if r.null() {
			continue
		}
		if err := d.extraEntry(r, w, block); err != nil {
			d.r.index = block
			return err
		}
	}
	w.Media = d.media[start:len(d.media):len(d.media)]
	return nil
}

func (d *Decoder) extraEntry(r *reader, w *wireEvent, block int) error {
	n, err := r.array()
	if err != nil {
		return err
	}
	var last []byte // bare string, which may be the salt
	for i := range n {
		if msgp.NextType(r.buf) != msgp.StrType {
			if err := d.extraItem(r, block); err != nil {
				return err
			}
			continue
		}
		s, err := r.text()
		if err != nil {
			return err
		}
		if i == 0 && d.isLoRA(w, s) {
			continue
		}
		if last != nil {
			if err := d.addMedia(block, last); err != nil {
				return err
			}
		}
		last = s
	}
	switch {
	case last == nil:
		return nil
	case block > 0 || w.HasParent || r.entryHas(last): // a salt is in the first block only
		return d.addMedia(block, last)
	default:
		w.SaltHash = d.saltHash(last)
		return nil
	}
}

// isLoRA tells whether an entry's first string is the adapter. It is where the
// event has a number for the adapter and no name.
func (d *Decoder) isLoRA(w *wireEvent, s []byte) bool {
	if w.LoRA == "" && w.LoRAID >= 0 {
		w.LoRA = d.name(s)
	}
	return w.LoRA != "" && w.LoRA == string(s)
}

// extraItem reads an item that is not a bare string.
func (d *Decoder) extraItem(r *reader, block int) error {
	raw, err := r.raw(5)
	if err != nil {
		return err
	}
	id := raw
	if msgp.NextType(raw) == msgp.ArrayType {
		tuple := reader{buf: raw, limits: r.limits}
		if n, err := tuple.array(); err == nil && n > 0 && msgp.NextType(tuple.buf) == msgp.StrType {
			if id, err = tuple.text(); err != nil {
				return err
			}
		}
	} else if b, _, err := msgp.ReadBytesZC(raw); err == nil {
		id = b
	}
	return d.addMedia(block, id)
}

func (d *Decoder) addMedia(block int, id []byte) error {
	if len(d.media) >= d.limits.Hashes {
		return over("extra keys in the batch", d.limits.Hashes)
	}
	d.media = append(d.media, Media{Block: block, Hash: MediaHash(id)})
	return nil
}

// entryHas tells whether the entry at the front has the bare string s. It does
// not move.
func (r *reader) entryHas(s []byte) bool {
	ahead := *r
	n, err := ahead.array()
	if err != nil {
		return false
	}
	for range n {
		if item, err := ahead.text(); err == nil {
			if string(item) == string(s) {
				return true
			}
		} else if ahead.skip(5) != nil {
			return false
		}
	}
	return false
}
