package kvevent

import (
	"math"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// A Decoder reads payloads. It keeps the memory of a batch for the next one, a
// MiB at most, so each stream has its own; it is not safe for concurrent use.
// The zero value is ready.
type Decoder struct {
	Limits Limits // set before the first Decode

	r      reader
	limits Limits
	batch  Batch
	hashes []uint64 // Hashes of all events, one after another; so the next two
	tokens []uint32
	media  []Media
	names  map[string]string // adapters and hashes of salts, which repeat
}

// What a decoder keeps between batches. Larger ones are rare, and left to the
// garbage collector.
const (
	keepEvents = 1 << 9
	keepHashes = 1 << 14
	keepTokens = 1 << 17
	keepMedia  = 1 << 10
	keepNames  = 1 << 10
	keepName   = 256 // bytes
)

// Decode reads one batch. The batch, and all that it points at but strings, is
// valid until the next call. An event that can't be read is skipped and
// counted; an error, always an *[Error], means that nothing of the payload is
// to be used.
func (d *Decoder) Decode(payload []byte) (*Batch, error) {
	d.reset()
	if len(payload) > d.limits.Bytes {
		return nil, &Error{Event: -1, Index: -1, Detail: string(over("bytes", d.limits.Bytes))}
	}
	d.r = reader{buf: payload, limits: &d.limits, index: -1}
	err := d.envelope()
	if err == nil && len(d.r.buf) > 0 {
		err = &Error{Event: -1, Index: -1, Detail: "has bytes behind its end"}
	}
	d.r.buf = nil
	if err != nil {
		return nil, err
	}
	return &d.batch, nil
}

func (d *Decoder) reset() {
	d.limits = d.Limits.withDefaults()
	d.batch = Batch{Rank: -1, Events: emptied(d.batch.Events, keepEvents)}
	d.hashes = emptied(d.hashes, keepHashes)
	d.tokens = emptied(d.tokens, keepTokens)
	d.media = emptied(d.media, keepMedia)
}

func emptied[T any](s []T, keep int) []T {
	if cap(s) > keep {
		return nil
	}
	return s[:0]
}

// The envelope's fields, in the order of its array.
const (
	envelopeTime = iota
	envelopeEvents
	envelopeRank
	envelopeFields
)

var envelopeNames = [envelopeFields]string{"ts", "events", "data_parallel_rank"}

func (d *Decoder) envelope() error {
	if msgp.NextType(d.r.buf) == msgp.MapType {
		return d.envelopeMap()
	}
	n, err := d.r.array()
	if err != nil {
		return &Error{Event: -1, Index: -1, Detail: err.Error()}
	}
	if n <= envelopeEvents {
		return &Error{Event: -1, Field: envelopeNames[n], Index: -1, Detail: string(faultMissing)}
	}
	for i := range n {
		if err := d.envelopeField(i); err != nil {
			return err
		}
	}
	return nil
}

func (d *Decoder) envelopeMap() error {
	n, err := d.r.mapping()
	if err != nil {
		return &Error{Event: -1, Index: -1, Detail: err.Error()}
	}
	found := false
	for range n {
		key, err := d.r.key()
		if err != nil {
			return &Error{Event: -1, Index: -1, Detail: "a key " + err.Error()}
		}
		field := envelopeFields
		switch string(key) {
		case "ts":
			field = envelopeTime
		case "events":
			field, found = envelopeEvents, true
		case "data_parallel_rank", "attn_dp_rank":
			field = envelopeRank
		}
		if err := d.envelopeField(field); err != nil {
			return err
		}
	}
	if !found {
		return &Error{Event: -1, Field: envelopeNames[envelopeEvents], Index: -1, Detail: string(faultMissing)}
	}
	return nil
}

// envelopeField reads the field's value; one that it does not know it skips.
func (d *Decoder) envelopeField(field int) error {
	var err error
	name := ""
	if field < envelopeFields {
		name = envelopeNames[field]
	}
	switch field {
	case envelopeTime:
		var seconds float64
		seconds, err = d.r.number()
		d.batch.At = instant(seconds)
	case envelopeEvents:
		return d.events()
	case envelopeRank:
		d.batch.Rank, err = d.r.optional(-1, math.MaxInt32)
	default:
		err = d.r.skip(1)
	}
	if err != nil {
		return &Error{Event: -1, Field: name, Index: -1, Detail: err.Error()}
	}
	return nil
}

// maxSeconds is the end of the year 9999.
const maxSeconds = 253402300799

// instant is a time from Unix seconds, zero if they are none.
func instant(seconds float64) time.Time {
	if !(seconds > 0 && seconds <= maxSeconds) { // NaN is neither
		return time.Time{}
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(math.Round(part*float64(time.Second))))
}

func (d *Decoder) events() error {
	n, err := d.r.array()
	if err == nil && n > d.limits.Events-len(d.batch.Events)-d.batch.Skipped {
		err = over("events", d.limits.Events)
	}
	if err != nil {
		return &Error{Event: -1, Field: envelopeNames[envelopeEvents], Index: -1, Detail: err.Error()}
	}
	for range n {
		if err := d.next(); err != nil {
			return err
		}
	}
	return nil
}

// next reads an event into the batch, or passes over it. An error means that
// nobody can tell where the event ends.
func (d *Decoder) next() error {
	b := &d.batch
	start, hashes, tokens, media := d.r.buf, len(d.hashes), len(d.tokens), len(d.media)
	b.Events = append(b.Events, Event{LoRAID: -1, Group: -1})
	w := wireEvent{Event: &b.Events[len(b.Events)-1]}
	why := d.event(&w)
	if why == nil {
		return nil
	}
	place := &Error{Event: len(b.Events) - 1 + b.Skipped, Field: w.at.name(), Index: d.r.index, Detail: why.Error()}
	d.r.buf, d.r.index = start, -1
	b.Events = b.Events[:len(b.Events)-1]
	d.hashes, d.tokens, d.media = d.hashes[:hashes], d.tokens[:tokens], d.media[:media]
	if d.r.skip(2) != nil {
		return place
	}
	if b.Skipped == 0 {
		b.Reason = place
	}
	b.Skipped++
	return nil
}

// name is a string that was met before, most of the time.
func (d *Decoder) name(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(s) > keepName {
		return s
	}
	if d.names == nil {
		d.names = make(map[string]string)
	}
	if len(d.names) >= keepNames {
		clear(d.names)
	}
	d.names[s] = s
	return s
}
