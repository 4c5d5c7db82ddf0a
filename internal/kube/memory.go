package kube

import (
	"container/list"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
)

// memory holds values for a time, and no more than so many: the one that was used
// least lately goes first.
type memory[K comparable, V any] struct {
	most int
	age  time.Duration

	mu    sync.Mutex
	items map[K]*list.Element // of remembrance
	order list.List           // latest use first
}

type remembrance[K comparable, V any] struct {
	key     K
	value   V
	expires time.Time
}

func newMemory[K comparable, V any](most int, age time.Duration) *memory[K, V] {
	return &memory[K, V]{most: most, age: age, items: map[K]*list.Element{}}
}

func (m *memory[K, V]) get(key K) (v V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.items[key]
	if e == nil {
		return v, false
	}
	of := e.Value.(*remembrance[K, V])
	if !(clock.Wall{}).Now().Before(of.expires) {
		m.remove(e)
		return v, false
	}
	m.order.MoveToFront(e)
	return of.value, true
}

func (m *memory[K, V]) put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.items[key]; e != nil {
		m.remove(e)
	}
	m.items[key] = m.order.PushFront(&remembrance[K, V]{key, value, clock.Wall{}.Now().Add(m.age)})
	if m.order.Len() > m.most {
		m.remove(m.order.Back())
	}
}

func (m *memory[K, V]) remove(e *list.Element) {
	m.order.Remove(e)
	delete(m.items, e.Value.(*remembrance[K, V]).key)
}
