package simulate

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// weigh values the pods by the speed of their prefill, against the first one's.
func (b *balancer) weigh() {
	first := b.run.pods[0].cfg.Profile
	for _, p := range b.run.pods {
		costs := p.cfg.Profile
		b.share = append(b.share, float64(first.Uncached+first.Step)/float64(costs.Uncached+costs.Step))
	}
	b.credit = make([]float64, len(b.share))
}

// weighted takes turns by weight, spread as NGINX does: each turn a pod is owed what
// it is worth, and who is owed most gets the request and pays the sum.
func (b *balancer) weighted(*Request) int {
	best, sum := -1, 0.0
	for i, share := range b.share {
		if !b.up[i] {
			continue
		}
		sum += share
		if b.credit[i] += share; best < 0 || b.credit[i] > b.credit[best] {
			best = i
		}
	}
	b.credit[best] -= sum
	return best
}

// sticky keeps a conversation, known by its cookie, on its first pod while that is up.
func (b *balancer) sticky(q *Request) int {
	if i, ok := b.pinned[q.Session]; ok && b.up[i] {
		return i
	}
	i := b.turns(q)
	b.pinned[q.Session] = i
	return i
}

// byClient goes by a hash of the client's address.
func (b *balancer) byClient(q *Request) int {
	return b.from(int(hashOf(q.Client) % uint64(len(b.up))))
}

// consistent goes by a hash of a header that names the conversation, or of the
// first bytes of the prompt.
func (b *balancer) consistent(q *Request) int {
	if b.policy.by == "header" {
		return b.onRing(hashOf(q.Session))
	}
	return b.onRing(hashOf(q.beginning(b.policy.bytes) ^ q.Spelling))
}

func (b *balancer) byURI(q *Request) int { return b.onRing(hashOf(hashOf(q.URI) ^ q.Spelling)) }

// bytesPerToken is what a token is in a body of JSON, about.
const bytesPerToken = 4

// beginning is a hash of the first bytes of a prompt.
func (q *Request) beginning(bytes int) uint64 {
	n := min(q.Input(), max(1, bytes/bytesPerToken))
	h := xxhash.New()
	var b [4]byte
	for _, id := range text(q.Prompt).Append(nil, 0, n) {
		binary.LittleEndian.PutUint32(b[:], id)
		_, _ = h.Write(b[:]) // never fails
	}
	return h.Sum64()
}

// A point is one of a pod's places on the ring of consistent hashing.
type point struct {
	at  uint64
	pod int
}

// points is how many each pod has, as with ketama.
const points = 160

func newRing(pods []*pod) []point {
	var ring []point
	for _, p := range pods {
		name := xxhash.Sum64String(p.Name)
		for i := range points {
			ring = append(ring, point{hashOf(name + uint64(i)), p.index})
		}
	}
	slices.SortFunc(ring, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	return ring
}

// onRing is the first pod that is up behind a hash on the ring.
func (b *balancer) onRing(h uint64) int {
	i, _ := slices.BinarySearchFunc(b.ring, h, func(p point, h uint64) int { return cmp.Compare(p.at, h) })
	for ; ; i++ {
		if p := b.ring[i%len(b.ring)].pod; b.up[p] {
			return p
		}
	}
}

// hashOf spreads a number over 64 bits.
func hashOf(v uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return xxhash.Sum64(b[:])
}
