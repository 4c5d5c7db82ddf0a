package score

import "slices"

// rankKey is what pods are ordered by. Equal means equal bits of the score; then
// the lower load ratio, then the lower queue depth, then the smaller mixed hash.
// Unknown readings sort behind known ones.
type rankKey struct {
	score    float64
	load     float64 // the load ratio: min(utilization / maxUtilization, 1)
	depth    float64
	mixed    uint64
	pod      int
	hasLoad  bool
	hasDepth bool
}

// set makes the key of pod i, in place: a decision makes one for nearly each pod.
func (a *rankKey) set(i int, score float64, p *PodState, w *Weights, seed uint64) {
	*a = rankKey{score: score, pod: i}
	if a.hasLoad = number(p.Utilization); a.hasLoad {
		a.load = min(p.Utilization.Value/w.MaxUtilization, 1)
	}
	a.depth, a.hasDepth = p.QueueDepth()
	hash := p.nameHash
	if hash == 0 {
		hash = NameHash(p.Pod, p.Endpoint)
	}
	a.mixed = mix64(seed ^ hash)
}

// mix64 is the finalizer of splitmix64 (Steele, Lea, Flood 2014).
func mix64(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// compare orders a before b when it is negative, and says what told them apart:
// ByNothing for the score itself.
func (a *rankKey) compare(b *rankKey) (int, DecidedBy) {
	if a.score != b.score {
		return order(a.score > b.score), ByNothing
	}
	if a.hasLoad != b.hasLoad {
		return order(a.hasLoad), ByTieLoad
	}
	if a.load != b.load {
		return order(a.load < b.load), ByTieLoad
	}
	if a.hasDepth != b.hasDepth {
		return order(a.hasDepth), ByTieQueue
	}
	if a.depth != b.depth {
		return order(a.depth < b.depth), ByTieQueue
	}
	if a.mixed != b.mixed {
		return order(a.mixed < b.mixed), ByTieSeed
	}
	return a.pod - b.pod, ByTieSeed // the same name and endpoint twice
}

func order(first bool) int {
	if first {
		return -1
	}
	return 1
}

// top is the first pods found so far, best first. Keys stay where they are put;
// only places are moved to keep the order.
type top struct {
	n      int
	places [OrderLength]place
	keys   [OrderLength]rankKey
}

type place struct {
	score float64
	slot  int // of the key
}

// rank finds the first OrderLength eligible pods by insertion into a short
// sorted array: nearly all pods fail the comparison with its last entry.
func (d *Decision) rank(pods []PodState, w *Weights, seed uint64) {
	t := &d.top
	t.n = 0
	best, k := 0.0, rankKey{}
	for i := range d.Results {
		r := &d.Results[i]
		if r.Reason != Eligible {
			continue
		}
		switch {
		case d.Tied == 0 || r.Score > best:
			best, d.Tied = r.Score, 1
		case r.Score == best:
			d.Tied++
		}
		if t.n == OrderLength && r.Score < t.places[OrderLength-1].score {
			continue
		}
		k.set(i, r.Score, &pods[i], w, seed)
		t.insert(&k)
	}
	for i := range t.n {
		d.Order = appendRank(d.Order, &t.keys[t.places[max(i, 1)-1].slot], &t.keys[t.places[i].slot])
	}
}

// insert puts a key in its place, if it has one among the first.
func (t *top) insert(k *rankKey) {
	at := t.find(k)
	if at == OrderLength {
		return
	}
	slot := t.n
	if t.n == OrderLength {
		slot = t.places[OrderLength-1].slot
	} else {
		t.n++
	}
	copy(t.places[at+1:t.n], t.places[at:])
	t.places[at] = place{k.score, slot}
	t.keys[slot] = *k
}

// find is the place in the order that a key belongs to.
func (t *top) find(k *rankKey) int {
	if t.n == 0 || k.score > t.places[0].score {
		return 0
	}
	at := t.n
	for ; at > 0 && k.score >= t.places[at-1].score; at-- {
		if k.score > t.places[at-1].score {
			continue
		}
		if c, _ := k.compare(&t.keys[t.places[at-1].slot]); c >= 0 {
			break
		}
	}
	return at
}

// appendRank adds a place to the order, behind the place before it.
func appendRank(dst []Rank, before, k *rankKey) []Rank {
	tie := ByNothing
	if len(dst) > 0 {
		_, tie = before.compare(k)
	}
	return append(dst, Rank{Pod: k.pod, Tie: tie})
}

// FullOrder is the order of all eligible pods, best first, for a decision that
// was taken with these pods, weights and seed.
func (d *Decision) FullOrder(pods []PodState, w *Weights, seed uint64) []Rank {
	keys := make([]rankKey, 0, d.Eligible)
	for i := range pods {
		if r := &d.Results[i]; r.Reason == Eligible {
			keys = append(keys, rankKey{})
			keys[len(keys)-1].set(i, r.Score, &pods[i], w, seed&MaxSeed)
		}
	}
	slices.SortFunc(keys, func(a, b rankKey) int {
		c, _ := a.compare(&b)
		return c
	})
	ranks := make([]Rank, 0, len(keys))
	for i := range keys {
		ranks = appendRank(ranks, &keys[max(i, 1)-1], &keys[i])
	}
	return ranks
}
