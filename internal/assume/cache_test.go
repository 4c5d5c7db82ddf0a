package assume

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// chain is n blocks of a prompt that differs from others from its first one on.
func chain(name byte, n int) []uint64 {
	blocks := make([]uint64, n)
	for i := range blocks {
		blocks[i] = uint64(name)<<32 | uint64(i)
	}
	return blocks
}

// fork continues the first n blocks of a chain with other ones.
func fork(blocks []uint64, n int, name byte, more int) []uint64 {
	return append(slices.Clone(blocks[:n]), chain(name, more)...)
}

// held is how many blocks of a prompt are there, from the first on.
func (c *Cache) leading(blocks []uint64) (n int) {
	for n < len(blocks) {
		if _, ok := c.index[blocks[n]]; !ok {
			break
		}
		n++
	}
	return n
}

// serve is a request from its beginning to its end.
func (c *Cache) serve(blocks []uint64, answer int) Use {
	_, use := c.Begin(nil, blocks)
	c.End(nil, blocks, answer)
	return use
}

// As vLLM does: the request that ended first loses its blocks first, and its last
// ones before the others.
func TestOldestIsEvictedFromItsTail(t *testing.T) {
	c := New(10)
	a, b := chain('a', 4), chain('b', 4)
	c.serve(a, 0)
	c.serve(b, 0)
	gone, use := c.Begin(nil, chain('c', 5))
	if want := []uint64{a[3], a[2], a[1]}; !slices.Equal(gone, want) || use.New != 0 {
		t.Errorf("%x gave way, the new ones begin at %d; want %x and 0", gone, use.New, want)
	}
	if n := c.leading(a); n != 1 || c.leading(b) != 4 {
		t.Errorf("%d and %d blocks are left, want 1 and 4", n, c.leading(b))
	}
	c.serve(a[:1], 0) // used again, so that b is next
	if gone, _ = c.Begin(nil, chain('d', 4)); !slices.Equal(gone, []uint64{b[3], b[2], b[1], b[0]}) {
		t.Errorf("%x gave way, want all of b", gone)
	}
}

func TestSharedPrefixOutlivesItsChains(t *testing.T) {
	c := New(8)
	a := chain('a', 6)
	c.serve(a, 0)
	b := fork(a, 3, 'b', 2)
	if _, use := c.Begin(nil, b); use.New != 3 {
		t.Errorf("the new blocks begin at %d, want 3", use.New)
	}
	c.serve(chain('c', 3), 0)
	if c.leading(b) != 5 || c.leading(a) != 3 {
		t.Errorf("%d and %d blocks are left, want the 5 of the later chain and the 3 that it shares", c.leading(b), c.leading(a))
	}
}

func TestAnswersTakeRoom(t *testing.T) {
	c := New(10)
	a, b := chain('a', 4), chain('b', 4)
	c.serve(a, 3)
	if gone, _ := c.Begin(nil, b); len(gone) != 0 || c.Held() != 10 {
		t.Errorf("%x gave way and %d blocks are held, want none and 10: first the end of the answer goes", gone, c.Held())
	}
	c.End(nil, b, 2)
	if c.leading(a) != 4 || c.Held() != 10 {
		t.Errorf("%d of 4 blocks are left, %d are held; want all 4 and 10", c.leading(a), c.Held())
	}
	next := fork(b, 4, 'n', 3) // the next turn names the two blocks of the answer
	if gone, _ := c.Begin(nil, next); !slices.Equal(gone, []uint64{a[3]}) || c.Held() != 10 {
		t.Errorf("%x gave way and %d blocks are held, want one and 10", gone, c.Held())
	}
}

func TestPromptLongerThanTheCache(t *testing.T) {
	c := New(4)
	a := chain('a', 9)
	c.serve(a, 7)
	if c.Held() != 4 || c.leading(a) != 4 {
		t.Errorf("%d blocks are held, %d of the prompt; want 4 of both", c.Held(), c.leading(a))
	}
	if gone := c.Resize(nil, 2); !slices.Equal(gone, []uint64{a[3], a[2]}) {
		t.Errorf("%x gave way, want the last two", gone)
	}
	if c.Resize(nil, 0); c.Held() != 1 {
		t.Errorf("%d blocks are held, want 1", c.Held())
	}
}

func TestRepeatedBlockDoesNotBreakTheList(t *testing.T) {
	c := New(8)
	c.serve([]uint64{1, 2, 1, 1, 3}, 0)
	if c.Held() != 3 || len(c.order()) != 3 {
		t.Errorf("%d blocks are held, the list has %x", c.Held(), c.order())
	}
}

// What the engine missed tells what else is gone.
func TestCounted(t *testing.T) {
	a, b, other := chain('a', 6), chain('b', 6), chain('c', 6)
	for _, tt := range []struct {
		name  string
		found int
		want  [3]int // blocks left of a, b, c
	}{
		{"all was found", 6, [3]int{6, 6, 6}},
		{"the tail is gone, and what was used before it", 2, [3]int{0, 6, 6}},
		{"nothing was found", 0, [3]int{0, 6, 6}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := New(100)
			for _, blocks := range [][]uint64{a, b, other} {
				c.serve(blocks, 2)
			}
			_, use := c.Begin(nil, b)
			gone := c.Counted(nil, use, tt.found)
			if got := [3]int{c.leading(a), c.leading(b), c.leading(other)}; got != tt.want {
				t.Errorf("%v blocks are left, want %v", got, tt.want)
			}
			if len(gone) != 6-tt.want[0] {
				t.Errorf("%x are gone", gone)
			}
		})
	}
	t.Run("a full eviction shows: the latest was missed", func(t *testing.T) {
		c := New(100)
		for _, blocks := range [][]uint64{a, other, b} {
			c.serve(blocks, 2)
		}
		_, use := c.Begin(nil, b)
		c.Counted(nil, use, 0)
		if c.Len() != 6 || c.leading(b) != 6 {
			t.Errorf("%d blocks are left, %d of the prompt; want its 6 alone", c.Len(), c.leading(b))
		}
	})
	t.Run("one that still ran proves nothing", func(t *testing.T) {
		c := New(100)
		c.serve(a, 0)
		c.Begin(nil, b)
		_, use := c.Begin(nil, b)
		if gone := c.Counted(nil, use, 0); len(gone) != 0 {
			t.Errorf("%x are gone", gone)
		}
	})
	t.Run("what was not there was not missed", func(t *testing.T) {
		c := New(100)
		c.serve(a, 0)
		_, use := c.Begin(nil, b)
		if gone := c.Counted(nil, use, 0); len(gone) != 0 {
			t.Errorf("%x are gone", gone)
		}
	})
}

// Conversations that take turns in a cache with less room than is known, as when
// others use it too: one miss shows it, and where the engine finds more it is undone.
func TestRoomIsLearned(t *testing.T) {
	c := New(1000)
	talks := make([][]uint64, 8)
	for i := range talks {
		talks[i] = chain(byte('a'+i), 10)
		c.serve(talks[i], 0)
	}
	turns := func(found int) (missed, believed int) {
		for _, blocks := range talks {
			_, use := c.Begin(nil, blocks)
			if use.New > found {
				missed++
			}
			believed += use.New
			c.Counted(nil, use, found)
			c.End(nil, blocks, 0)
		}
		return missed, believed
	}
	if missed, _ := turns(0); missed != 1 {
		t.Errorf("%d misses before the room is learned, want 1", missed)
	}
	if missed, believed := turns(0); missed != 0 || believed != 0 {
		t.Errorf("%d misses, %d blocks are believed to be there, want none", missed, believed)
	}
	turns(10) // the engine has all of them now
	if missed, believed := turns(10); missed != 0 || believed != 80 {
		t.Errorf("%d misses, %d blocks are believed to be there, want none and 80", missed, believed)
	}
}

// The blocks of an answer, which the next turn names, are no sign of more room.
func TestAnswersDoNotUndoWhatWasLearned(t *testing.T) {
	c := New(1000)
	a, b := chain('a', 4), chain('b', 4)
	c.serve(a, 0)
	c.serve(b, 2)
	_, use := c.Begin(nil, a)
	c.Counted(nil, use, 0)
	learned := c.learned
	_, use = c.Begin(nil, fork(b, 4, 'n', 3))
	if c.Counted(nil, use, 6); c.learned != learned {
		t.Errorf("room for %d after the blocks of the answer were found, want %d", c.learned, learned)
	}
	if c.Counted(nil, use, 7); c.learned != 2*learned {
		t.Errorf("room for %d after more were found, want %d", c.learned, 2*learned)
	}
}

// Another pod served: what only this request had stored is taken back.
func TestForget(t *testing.T) {
	c := New(100)
	a := chain('a', 6)
	c.serve(a[:2], 0)
	_, use := c.Begin(nil, a[:4])
	c.Begin(nil, fork(a, 3, 'b', 1)) // has used the third since
	if gone := c.Forget(nil, a[:4], use); !slices.Equal(gone, a[3:4]) {
		t.Errorf("%x are taken back, want %x", gone, a[3:4])
	}
	if c.leading(a) != 3 || c.Len() != 4 {
		t.Errorf("%d of the chain and %d in all are left, want 3 and 4", c.leading(a), c.Len())
	}
}

// order is the list from the newest block on; it must be the same in both ways.
func (c *Cache) order() (list []uint64) {
	last := none
	for i := c.newest; i != none; i = c.nodes[i].older {
		if c.nodes[i].newer != last {
			return nil
		}
		list, last = append(list, c.nodes[i].block), i
	}
	if c.oldest != last {
		return nil
	}
	return list
}

// The list against one of the plainest kind, without answers: blocks in the order
// of their last use, cut at the capacity.
func TestAgainstPlainList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 24).Draw(t, "capacity")
		c := New(capacity)
		var plain []uint64
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			blocks := chain(byte(rapid.IntRange(0, 3).Draw(t, "prompt")), rapid.IntRange(0, 12).Draw(t, "length"))
			if rapid.Bool().Draw(t, "forks") && len(blocks) > 2 {
				blocks = fork(blocks, 2, byte(rapid.IntRange(10, 12).Draw(t, "branch")), 3)
			}
			before := slices.Clone(plain)
			plain = slices.DeleteFunc(plain, func(b uint64) bool { return slices.Contains(blocks, b) })
			plain = append(slices.Clone(blocks), plain...)
			plain = plain[:min(len(plain), capacity)]
			known := 0
			for known < min(len(blocks), capacity) && slices.Contains(before, blocks[known]) {
				known++
			}
			gone, use := c.Begin(nil, blocks)
			if diff := cmp.Diff(plain, append([]uint64{}, c.order()...)); diff != "" {
				t.Fatalf("the list (−want +got):\n%s", diff)
			}
			if c.Held() != len(plain) || c.Len() != len(plain) || use.New != known {
				t.Fatalf("Held, Len, New = %d, %d, %d, want %d, %d, %d", c.Held(), c.Len(), use.New, len(plain), len(plain), known)
			}
			for _, b := range gone {
				if slices.Contains(plain, b) || !slices.Contains(before, b) {
					t.Fatalf("%x is said to be gone", b)
				}
			}
		}
	})
}

// With answers, misses and changes of capacity the sums stay right.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(16)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			blocks := chain(byte(rapid.IntRange(0, 3).Draw(t, "prompt")), rapid.IntRange(0, 12).Draw(t, "length"))
			_, use := c.Begin(nil, blocks)
			switch rapid.IntRange(0, 3).Draw(t, "then") {
			case 0:
				c.Counted(nil, use, rapid.IntRange(0, 12).Draw(t, "found"))
			case 1:
				c.Forget(nil, blocks, use)
			case 2:
				c.Resize(nil, rapid.IntRange(1, 32).Draw(t, "capacity"))
			}
			c.End(nil, blocks, rapid.IntRange(-1, 20).Draw(t, "answer"))
			held := 0
			list := c.order()
			for _, b := range list {
				held += 1 + int(c.nodes[c.index[b]].answer)
			}
			if len(list) != c.Len() || held != c.Held() || held > c.capacity {
				t.Fatalf("%d blocks in the list, %d with answers; Len, Held = %d, %d of %d", len(list), held, c.Len(), c.Held(), c.capacity)
			}
		}
	})
}
