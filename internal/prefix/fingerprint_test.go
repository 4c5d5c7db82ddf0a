package prefix

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/internal/golden"
)

const vectorFile = "../../testdata/fingerprints.json"

// slowHash is xxHash64 with seed 0, after the specification's prose
// (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), so that the vectors don't
// rest on the library that the package uses.
func slowHash(b []byte) uint64 {
	const (
		p1 uint64 = 0x9E3779B185EBCA87
		p2 uint64 = 0xC2B2AE3D27D4EB4F
		p3 uint64 = 0x165667B19E3779F9
		p4 uint64 = 0x85EBCA77C2B2AE63
		p5 uint64 = 0x27D4EB2F165667C5
	)
	round := func(acc, lane uint64) uint64 { return bits.RotateLeft64(acc+lane*p2, 31) * p1 }
	length := uint64(len(b))
	h := p5
	if len(b) >= 32 {
		acc := [4]uint64{p1, p2, 0, 0}
		acc[0] += p2 // at run time, where it wraps
		acc[3] -= p1
		for ; len(b) >= 32; b = b[32:] {
			for i := range acc {
				acc[i] = round(acc[i], binary.LittleEndian.Uint64(b[8*i:]))
			}
		}
		h = bits.RotateLeft64(acc[0], 1) + bits.RotateLeft64(acc[1], 7) +
			bits.RotateLeft64(acc[2], 12) + bits.RotateLeft64(acc[3], 18)
		for _, a := range acc {
			h = (h^round(0, a))*p1 + p4
		}
	}
	h += length
	for ; len(b) >= 8; b = b[8:] {
		h = bits.RotateLeft64(h^round(0, binary.LittleEndian.Uint64(b)), 27)*p1 + p4
	}
	if len(b) >= 4 {
		h = bits.RotateLeft64(h^uint64(binary.LittleEndian.Uint32(b))*p1, 23)*p2 + p3
		b = b[4:]
	}
	for _, c := range b {
		h = bits.RotateLeft64(h^uint64(c)*p5, 11) * p1
	}
	h = (h ^ h>>33) * p2
	h = (h ^ h>>29) * p3
	return h ^ h>>32
}

// slowFingerprints is the formula of the package comment, word for word.
func slowFingerprints(parent uint64, tokens []uint32, blockSize int) []uint64 {
	var all []uint64
	for i := 0; i+blockSize <= len(tokens); i += blockSize {
		b := binary.LittleEndian.AppendUint64(nil, parent)
		for _, id := range tokens[i : i+blockSize] {
			b = binary.LittleEndian.AppendUint32(b, id)
		}
		parent = slowHash(b)
		all = append(all, parent)
	}
	return all
}

// vector is one entry of testdata/fingerprints.json.
type vector struct {
	Name         string   `json:"name"`
	Model        string   `json:"model"`
	Adapter      string   `json:"adapter"`
	Salt         string   `json:"salt"`
	SaltHash     string   `json:"saltHash"`
	Root         string   `json:"root"`
	BlockSize    int      `json:"blockSize"`
	Tokens       []uint32 `json:"tokens"`
	Fingerprints []string `json:"fingerprints"`
}

func ascending(n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	return tokens
}

// vectors are the inputs, with outputs by the slow formula.
func vectors() []vector {
	// sha256("tenant-a"), the first 16 bytes, by sha256sum.
	const tenantA = "80a707af7dc77ee1228f9127180f3964"
	all := []vector{
		{Name: "base model", Model: "llama-8b", BlockSize: 16, Tokens: ascending(32)},
		{Name: "adapter", Model: "llama-8b", Adapter: "adapter-1", BlockSize: 16, Tokens: ascending(32)},
		{Name: "salt", Model: "llama-8b", Salt: "tenant-a", SaltHash: tenantA, BlockSize: 16, Tokens: ascending(32)},
		{Name: "adapter and salt", Model: "llama-8b", Adapter: "adapter-1", Salt: "tenant-a", SaltHash: tenantA, BlockSize: 16, Tokens: ascending(32)},
		{Name: "no model", BlockSize: 16, Tokens: ascending(16)},
		{Name: "utf-8", Model: "模型/ü", BlockSize: 16, Tokens: ascending(16)},
		{Name: "partial block at the end", Model: "m", BlockSize: 16, Tokens: ascending(47)},
		{Name: "shorter than a block", Model: "m", BlockSize: 16, Tokens: ascending(15)},
		{Name: "no tokens", Model: "m", BlockSize: 16, Tokens: []uint32{}},
		{Name: "large ids", Model: "m", BlockSize: 4, Tokens: []uint32{0, 1, 0xffffffff, 128000, 0x80000000, 7, 7, 7}},
		{Name: "blocks of 1", Model: "m", BlockSize: 1, Tokens: ascending(5)},
		{Name: "blocks of 6", Model: "m", BlockSize: 6, Tokens: ascending(13)},
		{Name: "blocks of 64", Model: "m", BlockSize: 64, Tokens: ascending(128)},
		{Name: "blocks of 256", Model: "m", BlockSize: 256, Tokens: ascending(512)},
	}
	for i := range all {
		v := &all[i]
		root := slowHash([]byte(v.Model + "\x00" + v.Adapter + "\x00" + v.SaltHash))
		v.Root = Format(root)
		v.Fingerprints = []string{}
		for _, fp := range slowFingerprints(root, v.Tokens, v.BlockSize) {
			v.Fingerprints = append(v.Fingerprints, Format(fp))
		}
	}
	return all
}

func TestFingerprintVectors(t *testing.T) {
	want := vectors()
	if golden.Update() {
		writeVectors(t, want)
	}
	raw, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var got []vector
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the file differs from the formula (-formula +file):\n%s", diff)
	}
	for _, v := range got {
		t.Run(v.Name, func(t *testing.T) { checkVector(t, v) })
	}
}

func checkVector(t *testing.T, v vector) {
	if got := SaltHash(v.Salt); got != v.SaltHash {
		t.Errorf("SaltHash(%q) = %q, want %q", v.Salt, got, v.SaltHash)
	}
	root := Root(v.Model, v.Adapter, v.SaltHash)
	if got := Format(root); got != v.Root {
		t.Errorf("Root = %s, want %s", got, v.Root)
	}
	got := []string{}
	for _, fp := range Fingerprints(nil, root, v.Tokens, v.BlockSize) {
		got = append(got, Format(fp))
	}
	if diff := cmp.Diff(v.Fingerprints, got); diff != "" {
		t.Errorf("Fingerprints (-want +got):\n%s", diff)
	}
}

// writeVectors keeps a vector's numbers on one line each.
func writeVectors(t *testing.T, all []vector) {
	t.Helper()
	var b strings.Builder
	for i, v := range all {
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString([]string{"[\n  ", ",\n  "}[min(i, 1)])
		b.Write(line)
	}
	b.WriteString("\n]\n")
	if err := os.WriteFile(vectorFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Known answers of xxHash64 with seed 0 that anyone can find: xxhsum -H1.
func TestSlowHashKnownAnswers(t *testing.T) {
	for in, want := range map[string]uint64{
		"":    0xef46db3751d8e999,
		"a":   0xd24ec4f1a98c6e5b,
		"abc": 0x44bc2cf5ad770999,
		"Nobody inspects the spammish repetition": 0xfbcea83c8a378bf1,
	} {
		if got := slowHash([]byte(in)); got != want {
			t.Errorf("slowHash(%q) = %x, want %x", in, got, want)
		}
	}
}

func TestFingerprintsFollowTheFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := rapid.Uint64().Draw(t, "root")
		tokens := rapid.SliceOfN(rapid.Uint32(), 0, 600).Draw(t, "tokens")
		size := rapid.OneOf(rapid.Just(16), rapid.IntRange(1, 300)).Draw(t, "blockSize")
		got := Fingerprints([]uint64{5}, root, tokens, size)
		want := append([]uint64{5}, slowFingerprints(root, tokens, size)...)
		if !slices.Equal(got, want) {
			t.Fatalf("Fingerprints(…) = %x, want %x", got, want)
		}
	})
}

func TestFingerprintsOfImpossibleBlocks(t *testing.T) {
	for _, size := range []int{0, -1, 1 << 40} {
		if got := Fingerprints([]uint64{5}, 1, ascending(32), size); !slices.Equal(got, []uint64{5}) {
			t.Errorf("Fingerprints with blocks of %d = %x, want none appended", size, got)
		}
	}
}

func TestParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fp := rapid.Uint64().Draw(t, "fp")
		for _, s := range []string{Format(fp), strings.ToUpper(Format(fp))} {
			if got, err := Parse(s); err != nil || got != fp {
				t.Fatalf("Parse(%q) = %x, %v, want %x", s, got, err, fp)
			}
		}
	})
	for _, s := range []string{
		"", "0", "123456789abcdef", "123456789abcdef01", "123456789abcdefg", "+23456789abcdef0",
		"0x23456789abcdef", "1234_6789abcdef0", " 23456789abcdef0", strings.Repeat("f", 1000),
	} {
		if got, err := Parse(s); err == nil || len(err.Error()) > 100 {
			t.Errorf("Parse(%.20q) = %x, %v, want a short error", s, got, err)
		}
	}
}

func TestFingerprintsDontAllocate(t *testing.T) {
	for _, size := range []int{16, 32, 128} {
		tokens, dst := ascending(4096), make([]uint64, 0, 256)
		if n := testing.AllocsPerRun(10, func() { dst = Fingerprints(dst[:0], 1, tokens, size) }); n != 0 {
			t.Errorf("blocks of %d: %v allocations, want 0", size, n)
		}
	}
}

func TestWithMedia(t *testing.T) {
	both := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 1<<40+7), 1<<50+9)
	if got, want := WithMedia(1<<40+7, 1<<50+9), slowHash(both); got != want {
		t.Errorf("WithMedia = %x, want %x", got, want)
	}
}
