package tokens

import (
	"crypto/hmac"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/eppctl/eppctl/internal/request"
)

// What a cached item is of.
const (
	ofPrompt   = iota // a whole prompt
	ofMessages        // the first messages of a chat, whatever comes after
	ofCut             // the beginning of a text up to a safe cut
)

// key names a wording without giving it away: the hash is keyed, so that nobody
// who sees when something is found can test guesses elsewhere.
type key struct {
	of  byte
	sum [16]byte
}

// hasher makes keys.
type hasher struct{ macs sync.Pool }

func newHasher() *hasher {
	var secret [32]byte
	_, _ = crand.Read(secret[:]) // never fails, see crypto/rand
	return &hasher{macs: sync.Pool{New: func() any { return &mac{Hash: hmac.New(sha256.New, secret[:])} }}}
}

// mac is a hash under way.
type mac struct {
	hash.Hash
	out    [sha256.Size]byte
	length [8]byte
}

func (h *hasher) get() *mac {
	m := h.macs.Get().(*mac)
	m.Reset()
	return m
}

func (h *hasher) put(m *mac) { h.macs.Put(m) }

// field adds a value so that no two lists of values make the same bytes; nil is
// another value than an empty one.
func (m *mac) field(value []byte) {
	n := uint64(len(value)) + 1
	if value == nil {
		n = 0
	}
	m.number(n)
	_, _ = m.Write(value) // a hash takes everything
}

func (m *mac) number(n uint64) {
	binary.LittleEndian.PutUint64(m.length[:], n)
	_, _ = m.Write(m.length[:])
}

// key is of what was added so far; more can be added.
func (m *mac) key(of byte) key {
	k := key{of: of}
	copy(k.sum[:], m.Sum(m.out[:0]))
	return k
}

// begin starts the hash of a prompt of a model with everything but its text or
// messages, and but what only changes its end.
func (h *hasher) begin(a *asking) *mac {
	m := h.get()
	m.number(a.generation)
	m.number(uint64(a.wording.Kind))
	m.field([]byte(a.model))
	for i, v := range a.wording.Members {
		if !atEnd(request.WordingMember(i)) {
			m.field(v)
		}
	}
	return m
}

func atEnd(m request.WordingMember) bool {
	return m == request.AddGenerationPrompt || m == request.ContinueFinalMessage
}

// text is the key of a text prompt.
func (h *hasher) text(a *asking, text []byte) key {
	m := h.begin(a)
	defer h.put(m)
	_, _ = m.Write(text[1 : len(text)-1])
	return m.key(ofPrompt)
}

// cuts are the keys of the beginnings of a text.
func (h *hasher) cuts(a *asking, text []byte, cuts []int) []key {
	m := h.begin(a)
	defer h.put(m)
	keys := make([]key, len(cuts))
	from := 1
	for i, c := range cuts {
		_, _ = m.Write(text[from:c])
		keys[i], from = m.key(ofCut), c
	}
	return keys
}

// chat are the keys of a whole chat, and of its messages without what only
// changes the end.
func (h *hasher) chat(a *asking) (whole, messages key) {
	m := h.begin(a)
	defer h.put(m)
	for _, v := range a.wording.Messages {
		m.field(v)
	}
	messages = m.key(ofMessages)
	for i, v := range a.wording.Members {
		if atEnd(request.WordingMember(i)) {
			m.field(v)
		}
	}
	return m.key(ofPrompt), messages
}

// beginnings are the keys of the first 1, 2, … messages of a chat.
func (h *hasher) beginnings(a *asking) []key {
	m := h.begin(a)
	defer h.put(m)
	keys := make([]key, len(a.wording.Messages))
	for i, v := range a.wording.Messages {
		m.field(v)
		keys[i] = m.key(ofMessages)
	}
	return keys
}
