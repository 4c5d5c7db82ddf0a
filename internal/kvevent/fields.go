package kvevent

import (
	"bytes"
	"math"

	"github.com/tinylib/msgp/msgp"
)

// A field is one of an event.
type field uint8

const (
	noField field = iota
	fieldType
	fieldHashes
	fieldParent
	fieldTokens
	fieldBlockSize
	fieldLoRAID
	fieldMedium
	fieldLoRAName // in SGLang's arrays a map of further fields
	fieldExtraKeys
	fieldGroup
	fieldSpecKind
	fieldWindow
	fieldLocality
	fieldCacheSalt
)

var fieldNames = [...]string{
	noField: "", fieldType: "type", fieldHashes: "block_hashes", fieldParent: "parent_block_hash",
	fieldTokens: "token_ids", fieldBlockSize: "block_size", fieldLoRAID: "lora_id", fieldMedium: "medium",
	fieldLoRAName: "lora_name", fieldExtraKeys: "extra_keys", fieldGroup: "group_idx",
	fieldSpecKind: "kv_cache_spec_kind", fieldWindow: "kv_cache_spec_sliding_window",
	fieldLocality: "locality", fieldCacheSalt: "cache_salt",
}

func (f field) name() string { return fieldNames[f] }

// fieldOf finds a map's key.
func fieldOf(key []byte) field {
	for f := fieldType; int(f) < len(fieldNames); f++ {
		if string(key) == fieldNames[f] {
			return f
		}
	}
	return noField
}

// The names of the events, and the orders of their fields in arrays.
const (
	typeStored  = "BlockStored"
	typeRemoved = "BlockRemoved"
	typeCleared = "AllBlocksCleared"
)

var (
	storedOrder = []field{
		fieldHashes, fieldParent, fieldTokens, fieldBlockSize, fieldLoRAID,
		fieldMedium, fieldLoRAName, fieldExtraKeys, fieldGroup, fieldSpecKind, fieldWindow,
	}
	removedOrder = []field{fieldHashes, fieldMedium, fieldGroup}
)

// maxBlockSize is far beyond the blocks of any engine, in tokens.
const maxBlockSize = 1 << 20

// A wireEvent is an event while it is read.
type wireEvent struct {
	*Event
	at        field  // being read, or missing
	seen      uint32 // a bit for each field
	known     bool   // the type is one of ours
	extraKeys []byte // raw, until the rest is known
	loraID    string // the adapter's number, where it is none
	remote    bool   // held by another than the engine that says it
}

func (w *wireEvent) has(f field) bool { return w.seen&(1<<f) != 0 }

// event reads the event at the front, in either form.
func (d *Decoder) event(w *wireEvent) error {
	var err error
	if msgp.NextType(d.r.buf) == msgp.MapType {
		err = d.mapEvent(w)
	} else {
		err = d.arrayEvent(w)
	}
	if err != nil {
		return err
	}
	return d.finish(w)
}

func (d *Decoder) mapEvent(w *wireEvent) error {
	n, err := d.r.mapping()
	if err != nil {
		return err
	}
	for range n {
		key, err := d.r.key()
		if err != nil {
			return err
		}
		if err := d.field(w, fieldOf(key)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Decoder) arrayEvent(w *wireEvent) error {
	n, err := d.r.array()
	if err != nil {
		return err
	}
	if n == 0 {
		w.at = fieldType
		return faultMissing
	}
	if err := d.field(w, fieldType); err != nil {
		return err
	}
	if !w.known {
		w.at = fieldType
		return faultType
	}
	var order []field
	switch w.Kind {
	case Stored:
		order = storedOrder
	case Removed:
		order = removedOrder
	case Cleared:
	}
	for i := range n - 1 {
		f := noField
		if i < len(order) {
			f = order[i]
		}
		if err := d.field(w, f); err != nil {
			return err
		}
	}
	return nil
}

// field reads the value of a field; one that it does not know it skips.
func (d *Decoder) field(w *wireEvent, f field) error {
	w.at = f
	w.seen |= 1 << f
	err := d.value(w, f)
	if err == nil {
		w.at = noField
	}
	return err
}

func (d *Decoder) value(w *wireEvent, f field) (err error) {
	r := &d.r
	switch f {
	case fieldHashes:
		start := len(d.hashes)
		d.hashes, err = r.hashes(d.hashes)
		w.Hashes = d.hashes[start:len(d.hashes):len(d.hashes)]
	case fieldTokens:
		start := len(d.tokens)
		d.tokens, err = r.tokens(d.tokens)
		w.Tokens = d.tokens[start:len(d.tokens):len(d.tokens)]
	case fieldParent:
		err = r.parent(w)
	case fieldBlockSize:
		w.BlockSize, err = r.optional(0, maxBlockSize)
	case fieldGroup:
		w.Group, err = r.optional(-1, math.MaxInt32)
	case fieldWindow:
		w.Window, err = r.optional(0, math.MaxInt32)
	case fieldExtraKeys:
		w.extraKeys, err = r.raw(3)
	case fieldLoRAID:
		err = d.loraID(w)
	case fieldLoRAName:
		if msgp.NextType(r.buf) == msgp.MapType {
			return d.metadata(w)
		}
		err = d.string(w, f)
	case noField:
		err = r.skip(3)
	default:
		err = d.string(w, f)
	}
	return err
}

// string reads a field that is a string, or nil for its default.
func (d *Decoder) string(w *wireEvent, f field) error {
	if d.r.null() {
		return nil
	}
	s, err := d.r.text()
	if err != nil {
		return err
	}
	switch f {
	case fieldType:
		w.Kind, w.known = kindOf(s)
	case fieldMedium:
		w.Tier = tierOf(s)
	case fieldLoRAName:
		w.LoRA = d.name(s)
	case fieldSpecKind:
		w.Attention = attentionOf(s)
	case fieldLocality:
		w.remote = bytes.EqualFold(s, []byte("REMOTE"))
	case fieldCacheSalt:
		w.SaltHash = d.saltHash(s)
	default: // the others are no strings
	}
	return nil
}

// parent reads the hash of the block before. llm-d's simulator says 0 in its
// arrays where others say nil.
func (r *reader) parent(w *wireEvent) (err error) {
	if r.null() {
		return nil
	}
	w.Parent, err = r.hash()
	w.HasParent = err == nil && w.Parent != 0
	return err
}

// loraID reads the adapter's number. SGLang's is a string.
func (d *Decoder) loraID(w *wireEvent) (err error) {
	if d.r.null() {
		return nil
	}
	if msgp.NextType(d.r.buf) != msgp.StrType {
		w.LoRAID, err = d.r.integer(0, math.MaxInt64)
		return err
	}
	s, err := d.r.text()
	if err == nil {
		w.loraID = d.name(s)
	}
	return err
}

// metadata reads what SGLang puts behind an array's medium.
func (d *Decoder) metadata(w *wireEvent) error {
	n, err := d.r.mapping()
	if err != nil {
		return err
	}
	for range n {
		key, err := d.r.key()
		if err != nil {
			return err
		}
		if fieldOf(key) == fieldCacheSalt {
			err = d.field(w, fieldCacheSalt)
		} else {
			err = d.r.skip(4)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finish checks what is there, and reads what depends on more than one field.
func (d *Decoder) finish(w *wireEvent) error {
	if !w.known {
		w.at = fieldType
		return faultType
	}
	if w.remote {
		w.Tier = External
	}
	switch w.Kind {
	case Cleared:
		*w.Event = Event{Kind: Cleared, LoRAID: -1, Group: -1}
		return nil
	case Removed:
		*w.Event = Event{Kind: Removed, Hashes: w.Hashes, LoRAID: -1, Tier: w.Tier, Group: w.Group}
		return w.need(fieldHashes)
	case Stored:
	}
	if err := w.need(fieldHashes, fieldTokens, fieldBlockSize); err != nil {
		return err
	}
	if w.LoRA == "" {
		w.LoRA = w.loraID
	}
	if w.extraKeys == nil {
		return nil
	}
	w.at = fieldExtraKeys
	return d.extra(w)
}

func (w *wireEvent) need(fields ...field) error {
	for _, f := range fields {
		if !w.has(f) {
			w.at = f
			return faultMissing
		}
	}
	return nil
}

func kindOf(s []byte) (kind Kind, known bool) {
	switch string(s) {
	case typeStored:
		return Stored, true
	case typeRemoved:
		return Removed, true
	case typeCleared:
		return Cleared, true
	default:
		return 0, false
	}
}

func tierOf(s []byte) Tier {
	is := func(names ...string) bool {
		for _, name := range names {
			if bytes.EqualFold(s, []byte(name)) {
				return true
			}
		}
		return false
	}
	switch {
	case is("", "GPU"):
		return GPU
	case is("CPU", "CPU_PINNED"):
		return CPU
	case is("DISK", "STORAGE"):
		return Disk
	case is("EXTERNAL"):
		return External
	default:
		return OtherTier
	}
}

func attentionOf(s []byte) Attention {
	switch string(s) {
	case "", "full_attention", "mla_attention", "sink_full_attention":
		return Full
	default:
		return Sparse
	}
}
