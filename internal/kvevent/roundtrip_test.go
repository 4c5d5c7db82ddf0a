package kvevent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/internal/prefix"
)

// What is written in any generation is read again, but for what the generation
// has no field for.
func TestRoundTrip(t *testing.T) {
	for g := range Generation(len(generationNames)) {
		t.Run(g.String(), func(t *testing.T) {
			d := new(Decoder)
			rapid.Check(t, func(t *rapid.T) {
				b := drawBatch(t)
				payload, err := Append([]byte("x"), g, b)
				if err != nil || payload[0] != 'x' {
					t.Fatalf("Append: %v", err)
				}
				got, err := d.Decode(payload[1:])
				if err != nil {
					t.Fatalf("Decode: %v", err)
				}
				if diff := cmp.Diff(sayable(g, b), got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("batch (-written +read):\n%s", diff)
				}
			})
		})
	}
}

func drawBatch(t *rapid.T) *Batch {
	const quarter = time.Second / 4 // which a float64 can say
	b := &Batch{Rank: rapid.IntRange(-1, 9).Draw(t, "rank")}
	if ticks := rapid.Int64Range(0, 1<<40).Draw(t, "quarters"); ticks > 0 {
		b.At = time.Unix(0, 0).Add(time.Duration(ticks%(1<<34)+1) * quarter)
	}
	for range rapid.IntRange(0, 4).Draw(t, "events") {
		b.Events = append(b.Events, drawEvent(t))
	}
	return b
}

func drawEvent(t *rapid.T) Event {
	e := Event{
		Kind:   Kind(rapid.IntRange(0, 2).Draw(t, "kind")),
		LoRAID: -1, Group: rapid.IntRange(-1, 3).Draw(t, "group"),
	}
	if e.Kind == Cleared {
		e.Group = -1
		return e
	}
	e.Hashes = rapid.SliceOfN(rapid.Uint64(), 0, 20).Draw(t, "hashes")
	e.Tier = Tier(rapid.IntRange(0, 4).Draw(t, "tier"))
	if e.Kind == Removed {
		return e
	}
	e.Tokens = rapid.SliceOfN(rapid.Uint32(), 0, 40).Draw(t, "tokens")
	e.BlockSize = rapid.IntRange(0, 1<<20).Draw(t, "block size")
	e.Attention = Attention(rapid.IntRange(0, 1).Draw(t, "attention"))
	e.Window = rapid.IntRange(0, 2).Draw(t, "window") * 64
	if e.HasParent = rapid.Bool().Draw(t, "has parent"); e.HasParent {
		e.Parent = max(rapid.Uint64().Draw(t, "parent"), 1)
	}
	if e.LoRA = rapid.SampledFrom([]string{"", "fr", "de"}).Draw(t, "adapter"); e.LoRA != "" {
		e.LoRAID = rapid.Int64Range(1, 1<<40).Draw(t, "number")
	}
	if len(e.Hashes) > 1 && rapid.Bool().Draw(t, "media") {
		// An image that reaches into the second block, as bare identifiers
		// have to in order to be told from a salt.
		e.Media = []Media{{Block: 0, ID: "img"}, {Block: 1, ID: "img"}}
	}
	if len(e.Hashes) > 0 && !e.HasParent {
		e.Salt = rapid.SampledFrom([]string{"", "tenant-a", "tenant-b"}).Draw(t, "salt")
	}
	return e
}

// sayable is what is left of a batch in a generation.
func sayable(g Generation, b *Batch) *Batch {
	left := &Batch{At: b.At, Rank: b.Rank}
	if g == ArrayV08 {
		left.Rank = -1
	}
	for _, e := range b.Events {
		vllm := !g.sglang()
		if g < ArrayV10 {
			e.Tier = GPU
		}
		if g < ArrayV13 || !vllm {
			e.LoRA = ""
		}
		if g < ArrayV19 || !vllm {
			e.Group = -1
		}
		if g < ArrayV21 || !vllm {
			e.Attention, e.Window = Full, 0
		}
		media := e.Media
		e.Media = nil
		if g >= ArrayV16 && vllm {
			for _, m := range media {
				e.Media = append(e.Media, Media{Block: m.Block, Hash: MediaHash([]byte(m.ID))})
			}
		}
		if g >= ArrayV16 {
			e.SaltHash = prefix.SaltHash(e.Salt)
		}
		e.Salt = ""
		left.Events = append(left.Events, e)
	}
	return left
}

func TestAppendRefuses(t *testing.T) {
	for name, e := range map[string]Event{
		"unknown kind":          {Kind: 3},
		"unknown tier":          {Tier: 5},
		"salt known by hash":    {SaltHash: prefix.SaltHash("a")},
		"media known by hash":   {Hashes: []uint64{1}, Media: []Media{{Hash: 7}}},
		"media behind the last": {Hashes: []uint64{1}, Media: []Media{{Block: 1, ID: "img"}}},
	} {
		if b, err := Append(nil, MapV24, &Batch{Events: []Event{e}}); err == nil || b != nil {
			t.Errorf("%s: %x, %v, want an error", name, b, err)
		}
	}
	if _, err := Append(nil, Generation(len(generationNames)), &Batch{}); err == nil {
		t.Error("an unknown generation is written")
	}
}

// The zero event is of the base model, whose number is not 0.
func TestAppendOfZeroEvent(t *testing.T) {
	payload, err := Append(nil, MapV24, &Batch{Events: []Event{{}}})
	if err != nil {
		t.Fatal(err)
	}
	want := &Batch{Events: []Event{{LoRAID: -1}}}
	if diff := cmp.Diff(want, decode(t, payload), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("batch (-want +got):\n%s", diff)
	}
}
