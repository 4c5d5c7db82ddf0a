package explain

// A chain has few ids, so that a record stays small: of the blocks 1, 2, 4, … up
// to chainTokens, of each block that ends another chainTokens, at most maxChain of
// these, and of the last block.
const (
	chainTokens = 512
	maxChain    = 256
)

func chainStep(blockSize int) int {
	if blockSize <= 0 {
		return 1
	}
	return max(1, chainTokens/blockSize)
}

// chainEarly is how many of the blocks 1, 2, 4, … stand before the first step.
func chainEarly(blocks, step int) (n int) {
	for at := 1; at < step && at <= blocks; at *= 2 {
		n++
	}
	return n
}

// ChainLength is how many ids [Request.Chain] has for a prompt of so many blocks
// of blockSize tokens.
func ChainLength(blocks, blockSize int) int {
	if blocks <= 0 {
		return 0
	}
	step := chainStep(blockSize)
	n := chainEarly(blocks, step) + min(blocks/step, maxChain)
	if n == 0 || chainBlock(n-1, blocks, step) < blocks {
		n++
	}
	return n
}

// ChainBlock is the place of the i-th of these ids: the number of blocks that it
// stands for, from the prompt's first.
func ChainBlock(i, blocks, blockSize int) int {
	return chainBlock(i, blocks, chainStep(blockSize))
}

func chainBlock(i, blocks, step int) int {
	early := chainEarly(blocks, step)
	switch {
	case i < early:
		return 1 << i
	case i-early < min(blocks/step, maxChain):
		return (i - early + 1) * step
	}
	return blocks
}

// SharedBlocks is how many blocks the prompts of two requests have in common from
// the start, as far as their chains tell: they share at least so many, and differ
// before the next block that both have an id of. It is 0 when their blocks are of
// different sizes. Ids compare only under one record key.
func SharedBlocks(a, b *Request) int {
	if a.BlockSize != b.BlockSize || !a.chained() || !b.chained() {
		return 0
	}
	shared := 0
	for i, j := 0, 0; i < len(a.Chain) && j < len(b.Chain); {
		x, y := ChainBlock(i, a.Blocks, a.BlockSize), ChainBlock(j, b.Blocks, b.BlockSize)
		switch {
		case x < y:
			i++
		case x > y:
			j++
		case a.Chain[i] != b.Chain[j]:
			return shared
		default:
			shared = x
			i, j = i+1, j+1
		}
	}
	return shared
}

// chained reports whether the chain is as long as it should be.
func (q *Request) chained() bool {
	return q.Blocks > 0 && len(q.Chain) == ChainLength(q.Blocks, q.BlockSize)
}
