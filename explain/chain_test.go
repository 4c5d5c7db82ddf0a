package explain

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// chained is a request of so many blocks, of which the first few are the same in
// all requests and the rest is its own.
func chained(name string, common, blocks, blockSize int) *Request {
	q := &Request{Blocks: blocks, BlockSize: blockSize}
	for i := range ChainLength(blocks, blockSize) {
		id := fmt.Sprintf("%d", ChainBlock(i, blocks, blockSize))
		if ChainBlock(i, blocks, blockSize) > common {
			id += name
		}
		q.Chain = append(q.Chain, id)
	}
	return q
}

func TestChainBlocks(t *testing.T) {
	for _, tc := range []struct {
		blocks, blockSize int
		want              string
	}{
		{0, 16, "[]"},
		{1, 16, "[1]"},
		{3, 16, "[1 2 3]"},
		{16, 16, "[1 2 4 8 16]"},
		{40, 16, "[1 2 4 8 16 32 40]"},
		{96, 16, "[1 2 4 8 16 32 64 96]"},
		{3, 1024, "[1 2 3]"},
		{9, 128, "[1 2 4 8 9]"},
	} {
		at := []int{}
		for i := range ChainLength(tc.blocks, tc.blockSize) {
			at = append(at, ChainBlock(i, tc.blocks, tc.blockSize))
		}
		if got := fmt.Sprint(at); got != tc.want {
			t.Errorf("%d blocks of %d tokens: ids at %s, want %s", tc.blocks, tc.blockSize, got, tc.want)
		}
	}
}

func TestSharedBlocks(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b *Request
		want int
	}{
		"the first turn's blocks, to the last that both have": {chained("a", 40, 40, 16), chained("b", 40, 90, 16), 32},
		"equal prompts share all":                             {chained("a", 40, 40, 16), chained("b", 40, 40, 16), 40},
		"a short beginning":                                   {chained("a", 5, 40, 16), chained("b", 5, 90, 16), 4},
		"nothing":                                             {chained("a", 0, 40, 16), chained("b", 0, 40, 16), 0},
		"other block sizes":                                   {chained("a", 40, 40, 16), chained("b", 40, 40, 32), 0},
		"a chain that is cut":                                 {chained("a", 40, 40, 16), &Request{Blocks: 40, BlockSize: 16, Chain: []string{"1"}}, 0},
	} {
		if got := SharedBlocks(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: %d blocks shared, want %d", name, got, tc.want)
		}
	}
}

func TestSharedBlocksNeverClaimsTooMuch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 8, 16, 64, 300, 1024}).Draw(t, "size")
		common := rapid.IntRange(0, 300).Draw(t, "common")
		a := chained("a", common, common+rapid.IntRange(0, 300).Draw(t, "a"), size)
		b := chained("b", common, common+rapid.IntRange(0, 300).Draw(t, "b"), size)
		shared := SharedBlocks(a, b)
		if shared > common || shared != SharedBlocks(b, a) {
			t.Fatalf("%d blocks shared, %d are common", shared, common)
		}
		if at := chainStep(size); common >= at && shared < common/at*at && common/at <= maxChain {
			t.Fatalf("%d blocks shared of %d, with an id each %d", shared, common, at)
		}
	})
}
