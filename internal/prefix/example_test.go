package prefix_test

import (
	"fmt"

	"github.com/eppctl/eppctl/internal/prefix"
)

func ExampleTree() {
	tokens := make([]uint32, 100) // of the prompt; 6 full blocks of 16
	root := prefix.Root("llama-8b", "", prefix.SaltHash(""))
	blocks := prefix.Fingerprints(nil, root, tokens, 16)

	tree := prefix.New()
	a, b := prefix.Slot{Index: 0, Generation: 1}, prefix.Slot{Index: 1, Generation: 1}
	tree.Admit(a)
	tree.Admit(b)
	tree.Store(a, root, blocks)
	tree.Store(b, root, blocks)
	tree.Remove(b, blocks[4:5])

	counts := make([]uint32, tree.Slots())
	deepest := tree.Lookup(blocks, counts)
	fmt.Println(deepest, counts)
	tree.Store(b, blocks[3], blocks[4:5])
	tree.Lookup(blocks, counts)
	fmt.Println(counts)
	// Output:
	// 6 [6 4]
	// [6 6]
}

func ExampleFingerprints() {
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8}
	root := prefix.Root("llama-8b", "adapter-1", prefix.SaltHash("tenant-a"))
	for _, fp := range prefix.Fingerprints(nil, root, tokens, 4) {
		fmt.Println(prefix.Format(fp))
	}
	// Output:
	// e113fdbd07aca0bc
	// 1bc293f2b961e762
}
