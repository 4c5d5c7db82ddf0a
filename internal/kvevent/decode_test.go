package kvevent

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tinylib/msgp/msgp"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pack writes msgpack: lists are arrays, a dict is a map in the order given.
func pack(t testing.TB, v any) []byte {
	t.Helper()
	return appendValue(t, nil, v)
}

type (
	list []any
	dict []any // key, value, key, value, …
)

func appendValue(t testing.TB, dst []byte, v any) []byte {
	t.Helper()
	switch v := v.(type) {
	case list:
		dst = msgp.AppendArrayHeader(dst, uint32(len(v)))
		for _, item := range v {
			dst = appendValue(t, dst, item)
		}
	case dict:
		dst = msgp.AppendMapHeader(dst, uint32(len(v)/2))
		for _, item := range v {
			dst = appendValue(t, dst, item)
		}
	default:
		var err error
		if dst, err = msgp.AppendIntf(dst, v); err != nil {
			t.Fatal(err)
		}
	}
	return dst
}

func decode(t testing.TB, payload []byte) *Batch {
	t.Helper()
	b, err := new(Decoder).Decode(payload)
	if err != nil {
		t.Fatalf("Decode(%x): %v", payload, err)
	}
	return b
}

// decodeEvent decodes a batch of one event.
func decodeEvent(t testing.TB, event any) Event {
	t.Helper()
	b := decode(t, pack(t, list{1.5, list{event}, nil}))
	if len(b.Events) != 1 {
		t.Fatalf("%d events, %d skipped (%v)", len(b.Events), b.Skipped, b.Reason)
	}
	return b.Events[0]
}

var tokens16 = []uint32{1, 127, 128, 255, 256, 65535, 65536, 151644, 0, 0, 0, 0, 0, 0, 0, 0}

const tokens16Hex = "dc0010 017fcc80ccffcd0100cdffffce00010000ce0002505c0000000000000000"

func TestPublishedBytes(t *testing.T) {
	stored := Event{
		Kind: Stored, Hashes: []uint64{0xdeadbeef12345678}, Tokens: tokens16, BlockSize: 16, LoRAID: -1,
	}
	removed := Event{Kind: Removed, Hashes: []uint64{0xdeadbeef12345678}, LoRAID: -1}
	tests := []struct {
		name, hex string
		gen       Generation // that writes the same bytes
		want      Event
	}{
		{"stored, map", `93 cb41dac32ce9a00000 91 8b a474797065 ab426c6f636b53746f726564 ac626c6f636b5f686173686573 91cfdeadbeef12345678
			b1706172656e745f626c6f636b5f68617368 c0 a9746f6b656e5f696473 ` + tokens16Hex + `
			aa626c6f636b5f73697a65 10 a76c6f72615f6964 c0 a66d656469756d a3475055 a96c6f72615f6e616d65 c0 aa65787472615f6b657973 91c0
			a967726f75705f696478 00 b26b765f63616368655f737065635f6b696e64 ae66756c6c5f617474656e74696f6e 00`, MapV24, stored},
		{"stored, array", `93 cb41dac32ce9a00000 91 9a ab426c6f636b53746f726564 91cfdeadbeef12345678 c0 ` + tokens16Hex + `
			10 c0 a3475055 c0 91c0 00 00`, ArrayV19, stored},
		{"removed, map", `93 cb41dac32ce9a00000 91 84 a474797065 ac426c6f636b52656d6f766564 ac626c6f636b5f686173686573 91cfdeadbeef12345678
			a66d656469756d a3475055 a967726f75705f696478 00 00`, MapV24, removed},
		{"cleared, map", `93 cb41dac32ce9a00000 91 81 a474797065 b0416c6c426c6f636b73436c6561726564 00`, MapV24, Event{Kind: Cleared, LoRAID: -1, Group: -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			payload := unhex(t, tt.hex)
			want := &Batch{At: time.Unix(1795994534, 5e8), Events: []Event{tt.want}}
			got := decode(t, payload)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("batch (-want +got):\n%s", diff)
			}
			again, err := Append(nil, tt.gen, want)
			if err != nil || string(again) != string(payload) {
				t.Errorf("Append(%v) = %x, %v, want %x", tt.gen, again, err, payload)
			}
		})
	}
}

func TestFormsOfStored(t *testing.T) {
	const salt, saltHash = "tenant-a", "80a707af7dc77ee1228f9127180f3964"
	id := MediaHash([]byte("img"))
	base := func(change func(*Event)) Event {
		e := Event{Hashes: []uint64{7, 8}, Tokens: []uint32{1, 2, 3, 4}, BlockSize: 2, LoRAID: -1, Group: -1}
		change(&e)
		return e
	}
	head := func(parent any, rest ...any) list {
		return append(list{"BlockStored", list{7, 8}, parent, list{1, 2, 3, 4}, 2}, rest...)
	}
	extra := func(loraID, loraName any, keys ...any) list {
		return head(nil, loraID, "GPU", loraName, list(keys))
	}
	none := func(*Event) {}
	tests := []struct {
		name  string
		event any
		want  Event
	}{
		{"the oldest", head(nil, nil), base(none)},
		{"fewer still", head(nil), base(none)},
		{"medium nil", head(nil, nil, nil), base(none)},
		{
			"trailing elements that nobody knows", head(nil, nil, "GPU", nil, nil, 3, "full_attention", nil, list{dict{"a", 1}}, "x"),
			base(func(e *Event) { e.Group = 3 }),
		},
		{"parent", head(uint64(1)<<63, nil), base(func(e *Event) { e.Parent, e.HasParent = 1<<63, true })},
		{"parent 0 of llm-d's simulator", head(0, nil), base(none)},
		{
			"parent in bytes", head(append(make([]byte, 24), 1, 2, 3, 4, 5, 6, 7, 8), nil),
			base(func(e *Event) { e.Parent, e.HasParent = 0x0102030405060708, true }),
		},
		{"hashes in bytes", list{"BlockStored", list{append(make([]byte, 31), 7), []byte{8}}, nil, list{1, 2, 3, 4}, 2}, base(none)},
		{
			"signed hashes",
			list{"BlockStored", list{int64(-1), int64(math.MinInt64)}, -2, list{1, 2, 3, 4}, 2},
			base(func(e *Event) {
				e.Hashes, e.Parent, e.HasParent = []uint64{math.MaxUint64, 1 << 63}, math.MaxUint64-1, true
			}),
		},
		{"map in another order, with keys that nobody knows", dict{
			"zzz",
			dict{"token_ids", list{9}},
			"extra_keys",
			list{list{"fr", salt}, list{"fr"}},
			"block_size", 2, "token_ids",
			list{1, 2, 3, 4},
			"kv_cache_spec_sliding_window", nil, 5, 6, "lora_name", "fr", "session_id", "s", "block_hashes",
			list{7, 8},
			"type", "BlockStored",
		}, base(func(e *Event) { e.LoRA, e.SaltHash = "fr", saltHash })},
		{
			"hashes only",
			dict{"type", "BlockStored", "block_hashes", list{7, 8}, "parent_block_hash", nil, "token_ids", list{}, "block_size", 0, "medium", "CPU"},
			base(func(e *Event) { e.Tokens, e.BlockSize, e.Tier = nil, 0, CPU }),
		},
		{
			"sliding window, holes",
			list{"BlockStored", list{8}, nil, list{1, 2, 3, 4}, 2, nil, "GPU", nil, list{nil}, 1, "sliding_window", 64},
			base(func(e *Event) { e.Hashes, e.Group, e.Attention, e.Window = []uint64{8}, 1, Sparse, 64 }),
		},
		{
			"sliding window, no hash",
			list{"BlockStored", list{}, 7, list{3, 4}, 2, nil, "GPU", nil, nil, 1, "chunked_local_attention"},
			base(func(e *Event) {
				e.Hashes, e.Tokens, e.Parent, e.HasParent, e.Group, e.Attention = nil, []uint32{3, 4}, 7, true, 1, Sparse
			}),
		},
		{"mla", head(nil, nil, "GPU", nil, nil, 0, "mla_attention"), base(func(e *Event) { e.Group = 0 })},
		{
			"SGLang's salt", head(nil, nil, "CPU_PINNED", dict{"session_id", "s", "cache_salt", salt}),
			base(func(e *Event) { e.Tier, e.SaltHash = CPU, saltHash }),
		},
		{"SGLang's adapter", head(nil, "f00d", "GPU"), base(func(e *Event) { e.LoRA = "f00d" })},
		{
			"somebody else's memory",
			dict{"type", "BlockStored", "block_hashes", list{7, 8}, "token_ids", list{1, 2, 3, 4}, "block_size", 2, "medium", "CPU", "locality", "REMOTE"},
			base(func(e *Event) { e.Tier = External }),
		},
		{"an adapter without a name", head(nil, 3), base(func(e *Event) { e.LoRAID = 3 })},
		{
			"an adapter that extra_keys name", extra(3, nil, list{"fr", salt}, list{"fr"}),
			base(func(e *Event) { e.LoRA, e.LoRAID, e.SaltHash = "fr", 3, saltHash }),
		},
		{ // case K4
			"an adapter by its name and extra_keys, which is no salt", extra(nil, "adapter-1", list{"adapter-1"}, list{"adapter-1"}),
			base(func(e *Event) { e.LoRA = "adapter-1" }),
		},
		{"salt", extra(nil, nil, list{salt}, nil), base(func(e *Event) { e.SaltHash = saltHash })},
		{
			"adapter, image, salt, embeddings", extra(3, "fr", list{"fr", list{"img", -4}, salt, []byte("img")}, list{"fr", list{"img", -6}}),
			base(func(e *Event) {
				e.LoRA, e.LoRAID, e.SaltHash = "fr", 3, saltHash
				e.Media = []Media{{Block: 0, Hash: id}, {Block: 0, Hash: id}, {Block: 1, Hash: id}}
			}),
		},
		{
			"bare identifiers of 0.18 and a salt", extra(nil, nil, list{"img", salt}, list{"img"}),
			base(func(e *Event) { e.SaltHash, e.Media = saltHash, []Media{{Block: 0, Hash: id}, {Block: 1, Hash: id}} }),
		},
		{
			"a bare identifier in two blocks is no salt", extra(nil, nil, list{"img"}, list{"img"}),
			base(func(e *Event) { e.Media = []Media{{Block: 0, Hash: id}, {Block: 1, Hash: id}} }),
		},
		{
			"a bare identifier behind the first block", head(5, nil, "GPU", nil, list{list{"img"}, nil}),
			base(func(e *Event) { e.Parent, e.HasParent, e.Media = 5, true, []Media{{Block: 0, Hash: id}} }),
		},
		{
			"an item that nobody knows keeps its block apart", extra(nil, nil, nil, list{dict{"a", 1}}),
			base(func(e *Event) { e.Media = []Media{{Block: 1, Hash: MediaHash(pack(t, dict{"a", 1}))}} }),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, decodeEvent(t, tt.event), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTiers(t *testing.T) {
	for medium, want := range map[string]Tier{
		"": GPU, "GPU": GPU, "gpu": GPU, "CPU": CPU, "cpu": CPU, "CPU_PINNED": CPU, "DISK": Disk, "STORAGE": Disk, "EXTERNAL": External, "tape": OtherTier,
	} {
		if got := decodeEvent(t, list{"BlockRemoved", list{1}, medium}).Tier; got != want {
			t.Errorf("medium %q: %v, want %v", medium, got, want)
		}
	}
}

func TestEnvelopes(t *testing.T) {
	cleared := list{list{"AllBlocksCleared"}}
	at := time.Unix(2, 5e8)
	tests := []struct {
		name  string
		batch any
		want  Batch
	}{
		{"0.8.3", list{2.5, cleared}, Batch{At: at, Rank: -1}},
		{"rank", list{2.5, cleared, 3}, Batch{At: at, Rank: 3}},
		{"rank nil", list{2.5, cleared, nil}, Batch{At: at, Rank: -1}},
		{"more than is known", list{2.5, cleared, 3, "x", dict{"a", list{1}}}, Batch{At: at, Rank: 3}},
		{"map", dict{"data_parallel_rank", 3, "x", list{1}, "events", cleared, "ts", 2.5}, Batch{At: at, Rank: 3}},
		{"map without a rank", dict{"ts", 2.5, "events", cleared}, Batch{At: at, Rank: -1}},
		{"whole seconds", list{2, cleared}, Batch{At: time.Unix(2, 0), Rank: -1}},
		{"single precision", list{float32(2.5), cleared}, Batch{At: at, Rank: -1}},
		{"no time", list{nil, cleared}, Batch{Rank: -1}},
		{"a time that is none", list{math.NaN(), cleared}, Batch{Rank: -1}},
		{"a time out of reach", list{math.Inf(1), cleared}, Batch{Rank: -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Events = []Event{{Kind: Cleared, LoRAID: -1, Group: -1}}
			if diff := cmp.Diff(&tt.want, decode(t, pack(t, tt.batch))); diff != "" {
				t.Errorf("batch (-want +got):\n%s", diff)
			}
		})
	}
}

// A Struct with more than 15 fields has the header of a larger map or array,
// however few it writes.
func TestWideHeadersOfSmallCollections(t *testing.T) {
	removed := `ac426c6f636b52656d6f766564` // "BlockRemoved"
	for name, payload := range map[string]string{
		"map16":   `93 01 91 de0002 a474797065 ` + removed + ` ac626c6f636b5f686173686573 dc000107 c0`,
		"map32":   `93 01 91 df00000002 a474797065 ` + removed + ` ac626c6f636b5f686173686573 dd0000000107 c0`,
		"array16": `dc0003 01 dc0001 dc0002 ` + removed + ` 9107 c0`,
		"array32": `dd00000003 01 dd00000001 dd00000002 ` + removed + ` 9107 c0`,
		"str8":    `93 01 91 92 d90c426c6f636b52656d6f766564 9107 c0`,
	} {
		t.Run(name, func(t *testing.T) {
			want := []Event{{Kind: Removed, Hashes: []uint64{7}, LoRAID: -1, Group: -1}}
			if diff := cmp.Diff(want, decode(t, unhex(t, payload)).Events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	for _, tt := range []struct {
		name string
		e    Event
		want bool
	}{
		{"all tokens", Event{Hashes: make([]uint64, 2), Tokens: make([]uint32, 32), BlockSize: 16}, true},
		{"hashes alone", Event{Hashes: make([]uint64, 2)}, false},
		{"more tokens than blocks", Event{Hashes: make([]uint64, 1), Tokens: make([]uint32, 32), BlockSize: 16}, false},
		{"part of a block", Event{Hashes: make([]uint64, 2), Tokens: make([]uint32, 33), BlockSize: 16}, false},
		{"sliding window", Event{Hashes: make([]uint64, 2), Tokens: make([]uint32, 32), BlockSize: 16, Attention: Sparse}, false},
	} {
		if got := tt.e.Complete(); got != tt.want {
			t.Errorf("%s: Complete() = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A batch must not change under its reader before the next one is decoded, and
// events must not share memory.
func TestEventsShareNoMemory(t *testing.T) {
	d := new(Decoder)
	event := func(hash, token int) list {
		return list{"BlockStored", list{hash}, nil, list{token}, 1}
	}
	b, err := d.Decode(pack(t, list{1, list{event(1, 1), list{"BlockStored", list{2}, nil, list{"x"}, 1}, event(3, 3)}}))
	if err != nil || len(b.Events) != 2 || b.Skipped != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	_ = append(b.Events[0].Hashes, 9)
	_ = append(b.Events[0].Tokens, 9)
	if last := b.Events[1]; last.Hashes[0] != 3 || last.Tokens[0] != 3 {
		t.Errorf("an append to the first event's lists changed the second: %+v", last)
	}
}
