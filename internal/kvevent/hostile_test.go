package kvevent

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/heaptest"
)

func TestErrorsNameThePlace(t *testing.T) {
	event := func(items ...any) list { return list{1, list{list{"AllBlocksCleared"}, list(items)}} }
	stored := func(key string, value any) any {
		e := dict{"type", "BlockStored", "block_hashes", list{7}, "token_ids", list{1}, "block_size", 1}
		return list{1, list{append(e, key, value)}}
	}
	long := strings.Repeat("x", 64<<10+1)
	deep := any("x")
	for range 14 {
		deep = list{deep}
	}
	tests := []struct {
		name  string
		batch any
		want  string
	}{
		{"not a batch", "secret", `batch: want an array, have str`},
		{"nothing in it", list{}, `ts: is missing`},
		{"no events", list{1}, `events: is missing`},
		{"map without events", dict{"ts", 1}, `events: is missing`},
		{"time of another type", list{"secret", list{}}, `ts: want a number, have str`},
		{"events of another type", list{1, dict{}}, `events: want an array, have map`},
		{"negative rank", list{1, list{}, -1}, `data_parallel_rank: is out of range`},
		{"event of another type", list{1, list{7}}, `events[0]: want an array, have int`},
		{"event without a type", event(), `events[1].type: is missing`},
		{"type of another type", event(7), `events[1].type: want a string, have int`},
		{"unknown type", event("BlockInactive", list{7}), `events[1].type: is of an unknown type`},
		{"map without a type", list{1, list{dict{"block_hashes", list{7}}}}, `events[0].type: is of an unknown type`},
		{"no hashes", event("BlockRemoved"), `events[1].block_hashes: is missing`},
		{"hashes nil", event("BlockRemoved", nil), `events[1].block_hashes: want an array, have nil`},
		{"no tokens", event("BlockStored", list{7}, nil), `events[1].token_ids: is missing`},
		{"no block size", event("BlockStored", list{7}, nil, list{1}), `events[1].block_size: is missing`},
		{"hash of another type", event("BlockRemoved", list{7, "secret"}), `events[1].block_hashes[1]: want a hash, which is an integer or bytes, have str`},
		{"hash without bytes", event("BlockRemoved", list{[]byte{}}), `events[1].block_hashes[0]: is out of range`},
		{"negative token", event("BlockStored", list{7}, nil, list{1, -31337}, 16), `events[1].token_ids[1]: is out of range`},
		{"large token", event("BlockStored", list{7}, nil, list{uint64(1) << 63}, 16), `events[1].token_ids[0]: is out of range`},
		{"token of another type", event("BlockStored", list{7}, nil, list{list{31337}}, 16), `events[1].token_ids[0]: want an integer, have array`},
		{"large block", stored("block_size", 1<<20+1), `events[0].block_size: is out of range`},
		{"group", stored("group_idx", -1), `events[0].group_idx: is out of range`},
		{"adapter", stored("lora_name", 7), `events[0].lora_name: want a string, have int`},
		{"adapter's text", stored("lora_name", "\xff"), `events[0].lora_name: is not valid UTF-8`},
		{"long salt", stored("cache_salt", long), `events[0].cache_salt: is longer than the limit of strings`},
		{"extra keys for more blocks", stored("extra_keys", list{list{"secret"}, nil}), `events[0].extra_keys: has not one entry for each block hash`},
		{"extra keys of another type", stored("extra_keys", "secret"), `events[0].extra_keys: want an array, have str`},
		{"entry of another type", stored("extra_keys", list{"secret"}), `events[0].extra_keys[0]: want an array, have str`},
		{"deep", stored("x", deep), `events[0]: is nested too deeply`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := new(Decoder).Decode(pack(t, tt.batch))
			if err == nil {
				err = b.Reason
			}
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	d := &Decoder{Limits: Limits{Bytes: 200, Events: 3, Hashes: 4, Tokens: 5, Depth: 6, StringBytes: 20}}
	stored := func(hashes, tokens int) list {
		return list{"BlockStored", make(list, hashes), nil, make(list, tokens), 1}
	}
	fill := func(l list) list {
		for _, at := range []int{1, 3} {
			for i := range l[at].(list) {
				l[at].(list)[i] = 7
			}
		}
		return l
	}
	batch := func(events ...any) any { return list{1, list(events)} }
	cleared := list{"AllBlocksCleared"}
	tests := []struct {
		name  string
		batch any
		want  string // "": within
	}{
		{"all at their limits", batch(fill(stored(4, 5)), cleared, cleared), ""},
		{"bytes", batch(strings.Repeat("x", 200)), "batch: has more than 200 bytes"},
		{"events", batch(cleared, cleared, cleared, cleared), "events: has more than 3 events"},
		{"events of a map that has them twice", dict{"events", list{cleared, cleared}, "events", list{1, 2}}, "events: has more than 3 events"},
		{"hashes", batch(fill(stored(5, 5))), "events[0].block_hashes: has more than 4 block hashes"},
		{"tokens", batch(fill(stored(4, 6))), "events[0].token_ids: has more than 5 token ids"},
		{
			"hashes of a batch", batch(dict{
				"block_hashes",
				list{1, 2, 3, 4},
				"block_hashes",
				list{1, 2, 3, 4},
				"block_hashes",
				list{1, 2, 3, 4},
				"block_hashes",
				list{1, 2, 3, 4},
				"block_hashes",
				list{1},
			}), "events[0].block_hashes: has more than 16 block hashes in the batch",
		},
		{
			"extra keys of a batch", batch(list{"BlockStored", list{1}, 2, list{}, 0, nil, nil, nil, list{list{"a", "a", "a", "a", "a"}}}),
			"events[0].extra_keys[0]: has more than 4 extra keys in the batch",
		},
		{"depth", batch(list{"AllBlocksCleared", list{list{list{list{}}}}}), "events[0]: is nested too deeply"},
		{"string", batch(list{"BlockRemoved", list{1}, strings.Repeat("x", 21)}), "events[0].medium: is longer than the limit of strings"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := d.Decode(pack(t, tt.batch))
			if err == nil {
				err = b.Reason
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
		})
	}
}

const (
	removed7 = `92 ac426c6f636b52656d6f766564 9107`
	removed8 = `92 ac426c6f636b52656d6f766564 9108`
)

// An event that can't be used costs itself, and the good ones around it apply.
func TestSkippedEvents(t *testing.T) {
	for name, bad := range map[string]string{
		"unknown array":      `93 ad426c6f636b496e616374697665 9107 81a161 c0`,
		"unknown map":        `82 a474797065 ad426c6f636b496e616374697665 ac626c6f636b5f686173686573 9107`,
		"nil":                `c0`,
		"hash of a string":   `92 ac426c6f636b52656d6f766564 92 07 a178`,
		"map with int keys":  `81 01 02`,
		"an extension":       `d6 01 00000000`,
		"empty":              `90`,
		"two hashes, 1 good": `92 ac426c6f636b52656d6f766564 92 07 c3`,
	} {
		t.Run(name, func(t *testing.T) {
			b := decode(t, unhex(t, `93 01 93`+removed7+bad+removed8+`00`))
			if b.Skipped != 1 || len(b.Events) != 2 || b.Events[0].Hashes[0] != 7 || b.Events[1].Hashes[0] != 8 || b.Rank != 0 {
				t.Errorf("skipped %d, rank %d, events %+v", b.Skipped, b.Rank, b.Events)
			}
			if b.Reason == nil || !strings.HasPrefix(b.Reason.Error(), "events[1]") {
				t.Errorf("reason %v", b.Reason)
			}
		})
	}
}

// case K7: headers that announce a gigabyte or more, in every place where a list may be.
// Other decoders allocate first and are killed.
func TestAnnouncedMemoryIsNotAllocated(t *testing.T) {
	const limit = 4 << 10 // bytes a payload, for its error
	stored := `ab426c6f636b53746f726564`
	for name, payload := range map[string]string{
		"the 15 bytes":   `92 cb0000000000000000 ddffffffff`,
		"envelope":       `dd40000000 01`,
		"map envelope":   `df40000000 01`,
		"event":          `92 01 91 dd40000000`,
		"map event":      `92 01 91 df40000000`,
		"hashes":         `92 01 91 93 ` + stored + ` dd40000000 07`,
		"tokens":         `92 01 91 94 ` + stored + ` 9107 c0 dd40000000 01`,
		"extra keys":     `92 01 91 99 ` + stored + ` 9107 c0 9101 01 c0 c0 c0 dd40000000 c0`,
		"an entry":       `92 01 91 99 ` + stored + ` 9107 c0 9101 01 c0 c0 c0 91 dd40000000 c0`,
		"a string":       `92 01 91 97 ` + stored + ` 9107 c0 9101 01 c0 db40000000 61`,
		"bytes":          `92 01 91 93 ` + stored + ` 91 c640000000 61`,
		"an extension":   `92 01 91 93 ` + stored + ` 91 c940000000 01 61`,
		"what is no key": `92 01 91 82 a474797065 ` + stored + ` a178 dd40000000`,
	} {
		t.Run(name, func(t *testing.T) {
			b := unhex(t, payload)
			var err error
			got := heaptest.Allocated(5, func() { _, err = new(Decoder).Decode(b) })
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("error %v, want an *Error", err)
			}
			if got > limit {
				t.Errorf("%d bytes allocated for %d, want at most %d", got, len(b), limit)
			}
		})
	}
}

// What an engine may be made to hold for the largest payload, and for how long.
func TestMemoryOfTheLargestPayload(t *testing.T) {
	if testing.Short() {
		t.Skip("decodes 64 MiB")
	}
	const tokens = 1<<22 - 1<<6
	event := append(unhex(t, `95 ab426c6f636b53746f726564 9107 c0 dd`), 0, tokens>>16, tokens>>8&0xff, tokens&0xff)
	event = append(event, make([]byte, tokens)...)
	event = append(event, 16)
	payload := slices.Concat([]byte{0x92, 1, 0x9f}, bytes.Repeat(event, 15))
	d := new(Decoder)
	var b *Batch
	var err error
	got := heaptest.Allocated(1, func() { b, err = d.Decode(payload) })
	if err != nil || len(b.Events) != batchFactor || b.Skipped != 15-batchFactor {
		t.Fatalf("%d events, %d skipped, %v", len(b.Events), b.Skipped, err)
	}
	t.Logf("%d MiB of payload: %d MiB allocated", len(payload)>>20, got>>20)
	if limit := uint64(4 * len(payload)); got > limit {
		t.Errorf("%d bytes allocated, want at most %d", got, limit)
	}
	decodeInto(t, d, unhex(t, `92 01 91`+removed7))
	if cap(d.tokens) > keepTokens || cap(d.hashes) > keepHashes || cap(d.batch.Events) > keepEvents {
		t.Errorf("the decoder keeps %d tokens, %d hashes, %d events", cap(d.tokens), cap(d.hashes), cap(d.batch.Events))
	}
}

func decodeInto(t testing.TB, d *Decoder, payload []byte) *Batch {
	t.Helper()
	b, err := d.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Adapters that never come again must not add up.
func TestMemoryOfNames(t *testing.T) {
	d := new(Decoder)
	for i := range 4 * keepNames {
		e := dict{"type", "BlockStored", "block_hashes", list{7}, "token_ids", list{1}, "block_size", 1, "lora_name", fmt.Sprint(i), "cache_salt", "tenant" + fmt.Sprint(i)}
		decodeInto(t, d, pack(t, list{1, list{e}}))
		if len(d.names) > keepNames {
			t.Fatalf("%d names kept, want at most %d", len(d.names), keepNames)
		}
	}
	for name := range d.names {
		if strings.Contains(name, "tenant") {
			t.Errorf("a salt is kept: %q", name)
		}
	}
}

// case K7: a stream of good and bad messages leaves the good ones.
func TestBadMessagesInAStream(t *testing.T) {
	payload := unhex(t, `93 01 93`+removed7+`92 a178 c0`+removed8+`00`)
	seq := func(n byte) []byte { return []byte{0, 0, 0, 0, 0, 0, 0, n} }
	stream := [][][]byte{
		{nil, seq(1), payload},
		{nil, {}, payload},
		{nil, seq(2)[1:], payload},
		{nil, append(seq(2), 0), payload},
		{nil, seq(2), payload[:len(payload)/2]},
		{nil, seq(3), unhex(t, `92 cb0000000000000000 dd40000000`)},
		{nil, seq(4), payload},
	}
	var good, badFrames, badPayloads, skipped, events int
	got := heaptest.Allocated(5, func() {
		d := new(Decoder)
		good, badFrames, badPayloads, skipped, events = 0, 0, 0, 0, 0
		for _, frames := range stream {
			m, err := ParseLive(frames)
			if err != nil {
				badFrames++
				continue
			}
			b, err := d.Decode(m.Payload)
			if err != nil {
				badPayloads++
				continue
			}
			good++
			skipped += b.Skipped
			events += len(b.Events)
		}
	})
	if good != 2 || badFrames != 3 || badPayloads != 2 || skipped != 2 || events != 4 {
		t.Errorf("%d good, %d bad frames, %d bad payloads, %d skipped, %d events", good, badFrames, badPayloads, skipped, events)
	}
	const limit = 16 << 10
	t.Logf("%d bytes allocated", got)
	if got > limit {
		t.Errorf("%d bytes allocated, want at most %d", got, limit)
	}
}

// Every payload cut off anywhere, and with any bit turned, is an error or a
// batch.
func TestDamagedPayloads(t *testing.T) {
	b := &Batch{Events: []Event{{
		Hashes: []uint64{1 << 60, 2}, Parent: 9, HasParent: true, Tokens: tokens16, BlockSize: 8, LoRA: "fr", LoRAID: 3,
		Media: []Media{{Block: 1, ID: "img"}},
	}, {Kind: Removed, Hashes: []uint64{3}}, {Kind: Cleared}}}
	for g := range Generation(len(generationNames)) {
		payload, err := Append(nil, g, b)
		if err != nil {
			t.Fatal(err)
		}
		d := new(Decoder)
		for cut := range payload {
			if _, err := d.Decode(payload[:cut:cut]); err == nil {
				t.Errorf("%v: %d of %d bytes are a batch", g, cut, len(payload))
			}
		}
		for bit := range 8 * len(payload) {
			damaged := bytes.Clone(payload)
			damaged[bit/8] ^= 1 << (bit % 8)
			checkDecoded(t, d, damaged)
		}
	}
}
