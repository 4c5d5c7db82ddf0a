package record

import (
	"slices"
	"strings"

	"github.com/eppctl/eppctl/score"
)

// roster is the names and endpoints of a pool's pods under one version of its
// membership. It is never changed.
type roster struct {
	version uint64
	text    string   // name, endpoint, name, endpoint, …
	ends    []uint32 // of each of them
}

func newRoster(version uint64, pods []score.PodState) *roster {
	var text strings.Builder
	size := 0
	for i := range pods {
		size += len(pods[i].Pod) + len(pods[i].Endpoint)
	}
	text.Grow(size)
	ends := make([]uint32, 0, 2*len(pods))
	add := func(name string) {
		text.WriteString(strings.ToValidUTF8(name, "\uFFFD")) // as JSON would write it
		ends = append(ends, uint32(text.Len()))
	}
	for i := range pods {
		add(pods[i].Pod)
		add(pods[i].Endpoint)
	}
	return &roster{version: version, text: text.String(), ends: ends}
}

func (r *roster) size() int64 { return int64(len(r.text)+4*cap(r.ends)) + 128 }

func (r *roster) pods() int { return len(r.ends) / 2 }

func (r *roster) part(i int) string {
	from := uint32(0)
	if i > 0 {
		from = r.ends[i-1]
	}
	return r.text[from:r.ends[i]]
}

func (r *roster) pod(i int) string { return r.part(2 * i) }

func (r *roster) endpoint(i int) string { return r.part(2*i + 1) }

// fits reports whether an entry's pods are this roster's. The version says so;
// number and first name guard against a pool that forgets to count.
func (r *roster) fits(version uint64, pods []score.PodState) bool {
	return r.version == version && r.pods() == len(pods) && (len(pods) == 0 || r.pod(0) == pods[0].Pod)
}

// find is the index of a pod by its endpoint, looking at the likely one first;
// −1 when there is none.
func (r *roster) find(endpoint string, likely int) int {
	if likely >= 0 && likely < r.pods() && r.endpoint(likely) == endpoint {
		return likely
	}
	for i := range r.pods() {
		if r.endpoint(i) == endpoint {
			return i
		}
	}
	return -1
}

func sameWeights(a, b *score.Weights) bool {
	return a.Generation == b.Generation && a.Cache == b.Cache && a.Load == b.Load && a.Queue == b.Queue &&
		a.Health == b.Health && a.Adapter == b.Adapter && a.MaxQueue == b.MaxQueue &&
		a.MaxUtilization == b.MaxUtilization && a.Saturation == b.Saturation && slices.Equal(a.Custom, b.Custom)
}

func weightsSize(w *score.Weights) int64 {
	n := int64(192)
	for _, c := range w.Custom {
		n += int64(len(c.Name)) + 32
	}
	return n
}

// table holds what many records share, in order of arrival. A row is kept until
// the last slab that refers to it has left.
type table[T any] struct {
	base  uint32 // id of the first row
	rows  []row[T]
	bytes int64
}

type row[T any] struct {
	value *T
	bytes int64
	last  uint64 // the newest slab that refers to it
}

// rowOverhead is what a row takes beside its value.
const rowOverhead = 48

// recent is how many of the newest rows are looked at for one that can be shared.
const recent = 8

// find returns the id of a recent row.
func (t *table[T]) find(fits func(*T) bool) (uint32, bool) {
	for i := len(t.rows) - 1; i >= max(0, len(t.rows)-recent); i-- {
		if fits(t.rows[i].value) {
			return t.base + uint32(i), true
		}
	}
	return 0, false
}

func (t *table[T]) add(v *T, bytes int64, slab uint64) uint32 {
	t.rows = append(t.rows, row[T]{v, bytes + rowOverhead, slab})
	t.bytes += bytes + rowOverhead
	return t.base + uint32(len(t.rows)-1)
}

func (t *table[T]) at(id uint32) *T { return t.rows[id-t.base].value }

func (t *table[T]) use(id uint32, slab uint64) { t.rows[id-t.base].last = slab }

// leave drops the rows at the front that only slabs before oldest refer to.
func (t *table[T]) leave(oldest uint64) {
	n := 0
	for n < len(t.rows) && t.rows[n].last < oldest {
		t.bytes -= t.rows[n].bytes
		n++
	}
	t.rows = slices.Delete(t.rows, 0, n)
	t.base += uint32(n)
}
