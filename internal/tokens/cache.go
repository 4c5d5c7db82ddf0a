package tokens

import (
	"container/list"
	"sync"
	"time"
)

// cache keeps ids, and what else was learned, by key: bounded in bytes, the least
// recently used go first, and nothing grows older than lifetime, since a server
// may come back with another template under the same name.
type cache struct {
	mu    sync.Mutex
	most  int64
	bytes int64
	items map[key]*list.Element
	order list.List // of *item, the latest used first
}

const (
	lifetime = 15 * time.Minute
	// itemBytes is about what an item takes beside its ids: map, list, item.
	itemBytes = 256
)

type item struct {
	key    key
	ids    []uint32 // nil for a cut that was only seen, and for messages
	from   string
	prompt key // of messages, or of a cut: where they were seen
	until  time.Time
}

func (i *item) bytes() int64 { return itemBytes + 4*int64(cap(i.ids)) }

func newCache(most int64) *cache { return &cache{most: most, items: map[key]*list.Element{}} }

// get finds an item and makes it the latest used.
func (c *cache) get(k key, now time.Time) (item, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.items[k]
	if e == nil {
		return item{}, false
	}
	i := e.Value.(*item)
	if now.After(i.until) {
		c.drop(e)
		return item{}, false
	}
	c.order.MoveToFront(e)
	return *i, true
}

// put keeps an item, if it is not larger than a quarter of the cache.
func (c *cache) put(i item, now time.Time) {
	i.until = now.Add(lifetime)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.items[i.key]; e != nil {
		c.drop(e)
	}
	if i.bytes() > c.most/4 {
		return
	}
	c.items[i.key] = c.order.PushFront(&i)
	c.bytes += i.bytes()
	for c.bytes > c.most {
		c.drop(c.order.Back())
	}
}

func (c *cache) drop(e *list.Element) {
	i := c.order.Remove(e).(*item)
	delete(c.items, i.key)
	c.bytes -= i.bytes()
}

func (c *cache) size() (bytes int64, items int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes, len(c.items)
}
