package vllm

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
)

// The vectors that the picker's own implementation is tested with.
func TestFingerprintVectors(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/fingerprints.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Model, Adapter, SaltHash, Root string
		BlockSize                            int
		Tokens                               []uint32
		Fingerprints                         []string
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, v := range vectors {
		if v.BlockSize != TokensPerBlock {
			continue // the simulated engine has one size only
		}
		tested++
		root := newRoot(v.Model, v.Adapter, v.SaltHash)
		var got []string
		for _, h := range appendFingerprints(nil, root.hash, v.Tokens) {
			got = append(got, fmt.Sprintf("%016x", h))
		}
		if len(v.Fingerprints) == 0 {
			v.Fingerprints = nil
		}
		if diff := cmp.Diff(append([]string{v.Root}, v.Fingerprints...), append([]string{fmt.Sprintf("%016x", root.hash)}, got...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v.Name, diff)
		}
	}
	if tested < 4 {
		t.Errorf("only %d vectors have blocks of %d tokens", tested, TokensPerBlock)
	}
}

// The formula of scoring.md §4, spelled out.
func TestFingerprintFormula(t *testing.T) {
	root := newRoot("base", "fr", "00ff")
	if want := xxhash.Sum64String("base\x00fr\x0000ff"); root.hash != want {
		t.Errorf("root %x, want %x", root.hash, want)
	}
	if want := xxhash.Sum64String("base\x00\x00"); newRoot("base", "", "").hash != want {
		t.Error("an absent adapter and salt are not empty")
	}
	tokens := prompt(1, 40) // the last 8 are a partial block
	got := appendFingerprints(nil, root.hash, tokens)
	if len(got) != 2 {
		t.Fatalf("%d fingerprints of 40 tokens, want 2", len(got))
	}
	parent := root.hash
	for i := range got {
		text := binary.LittleEndian.AppendUint64(nil, parent)
		for _, id := range tokens[16*i : 16*i+16] {
			text = binary.LittleEndian.AppendUint32(text, id)
		}
		if parent = xxhash.Sum64(text); got[i] != parent {
			t.Errorf("block %d: %x, want %x", i, got[i], parent)
		}
	}
}

func BenchmarkEngine(b *testing.B) {
	const perRun = 30 // requests of 12k tokens, a second's worth at 30 a second
	b.ReportAllocs()
	for b.Loop() {
		e := testEngine(b, Config{})
		for i := range perRun {
			submit(b, e, 0, &Sequence{Prompt: prompt(uint32(i), 12_000), MaxTokens: 300})
		}
		drain(b, e)
	}
}
