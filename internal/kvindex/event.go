package kvindex

import (
	"strconv"
	"time"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/prefix"
)

// keepFingerprints is how much memory for fingerprints is kept between events.
const keepFingerprints = 1 << 14

// batch applies a batch in its order. A lookup beside it may find a part of it,
// and nothing that was removed before.
func (r *Rank) batch(b *kvevent.Batch) {
	r.batches.Add(1)
	r.stats.Batches++
	r.stats.Skipped += uint64(max(b.Skipped, 0))
	r.at = b.At
	for i := range b.Events {
		if r.closed {
			return
		}
		e := &b.Events[i]
		r.stats.LastEvent = b.At
		if int(e.Kind) < len(r.stats.Events) {
			r.stats.Events[e.Kind]++
		}
		switch e.Kind {
		case kvevent.Stored:
			if r.flush(); !r.closed {
				r.stored(e)
			}
		case kvevent.Removed:
			r.remove(e)
		case kvevent.Cleared:
			r.wipe()
			r.order.known() // whatever was missed, nothing of it is left
		}
	}
	r.flush()
	r.fps, r.held = kept(r.fps), kept(r.held)
	for k := range r.levels {
		r.levels[k].removed = kept(r.levels[k].removed)
	}
}

func kept(s []uint64) []uint64 {
	if cap(s) > keepFingerprints {
		return nil
	}
	return s[:0]
}

// stored applies an event by its form.
func (r *Rank) stored(e *kvevent.Event) {
	n := uint64(len(e.Hashes))
	r.groups.note(e)
	switch {
	case n == 0:
	case e.Attention != kvevent.Full:
		r.stats.Sparse += n
	case len(e.Tokens) == 0:
		r.resolve(e)
	case !e.Complete() || !r.fits(e.BlockSize):
		r.stats.Unfit += n
	default:
		parent, known := r.parent(e)
		if !known {
			r.stats.UnknownParents++
			r.stats.Orphans += n
			r.stats.OrphansDropped += uint64(r.aside.keep(e, r.cfg.Limits.OrphanBytes))
			return
		}
		var aside []bool
		if restates(e) {
			aside = r.aside.among(e)
		}
		r.hold(e, parent, aside)
		r.adopt()
	}
}

// restates reports whether an event may announce blocks again that are there. It
// is the form of a full report, which tells a chain from its start; a block that
// is computed again has its parent, or is alone.
func restates(e *kvevent.Event) bool { return !e.HasParent && len(e.Hashes) > 1 }

// fits reports whether blocks of a size are indexed. The first size is the
// engine's for as long as anything of it is known.
func (r *Rank) fits(size int) bool {
	if ours := r.cfg.BlockSize; size%ours != 0 && ours%size != 0 {
		r.stats.Mismatch = size
		return false
	}
	if r.table.used == 0 && r.aside.blocks == 0 {
		r.size, r.stats.Mismatch = size, 0
	}
	return r.size == size
}

// parent is the fingerprint before the event's first block.
func (r *Rank) parent(e *kvevent.Event) (fp uint64, known bool) {
	if e.HasParent {
		if rec := r.table.find(e.Parent); rec != nil {
			return rec.fp, true
		}
		return 0, false
	}
	adapter := e.LoRA
	if adapter == "" && e.LoRAID >= 0 {
		adapter = "\x00" + strconv.FormatInt(e.LoRAID, 10) // no request can name it
	}
	if adapter == "" && e.SaltHash == "" {
		return r.base, true
	}
	return prefix.Root(r.cfg.Model, adapter, e.SaltHash), true
}

// fingerprints computes those of a complete event's blocks.
func (r *Rank) fingerprints(e *kvevent.Event, parent uint64) []uint64 {
	if len(e.Media) == 0 {
		return prefix.Fingerprints(r.fps[:0], parent, e.Tokens, e.BlockSize)
	}
	fps, media := r.fps[:0], e.Media
	for i := range e.Hashes {
		fps = prefix.Fingerprints(fps, parent, e.Tokens[i*e.BlockSize:(i+1)*e.BlockSize], e.BlockSize)
		for ; len(media) > 0 && media[0].Block <= i; media = media[1:] {
			fps[i] = prefix.WithMedia(fps[i], media[0].Hash)
		}
		parent = fps[i]
	}
	return fps
}

// hold counts a copy of each of the event's blocks but those to skip, and tells
// the tree.
func (r *Rank) hold(e *kvevent.Event, parent uint64, skip []bool) {
	at := r.places.add(e.Tier, e.Group, r.levelOf(e.Tier))
	if at < 0 {
		r.stats.Dropped += uint64(len(e.Hashes))
		return
	}
	r.fps = r.fingerprints(e, parent)
	again := restates(e)
	r.held = r.held[:0]
	for i, hash := range e.Hashes {
		if skip != nil && skip[i] {
			continue
		}
		if r.copy(hash, r.fps[i], at, again) {
			r.held = append(r.held, r.fps[i])
		}
	}
	r.tell(at, parent)
}

// copy counts a copy of a block, and reports whether the block is held there.
func (r *Rank) copy(hash, fp uint64, at int, restates bool) bool {
	rec := r.table.find(hash)
	switch {
	case rec == nil && r.table.used >= r.cfg.Limits.Blocks:
		r.stats.Dropped++
		return false
	case rec == nil:
		c, _ := copies(0).add(at)
		r.table.put(record{hash, fp, c.stamped(r.batches.Load())})
		r.places.list[at].blocks++
		r.ready = r.aside.take(r.ready, hash)
		return true
	case rec.fp != fp:
		r.stats.Conflicts++
		return false
	}
	return r.again(rec, at, restates)
}

// again counts a copy of a block that is known.
func (r *Rank) again(rec *record, at int, restates bool) bool {
	had := rec.copies.count(at) > 0
	if had && restates {
		r.stats.Restated++
	} else {
		c, ok := rec.copies.add(at)
		if !ok {
			r.stats.Dropped++
			return false
		}
		rec.copies = c
	}
	rec.copies = rec.copies.stamped(r.batches.Load())
	if !had {
		r.places.list[at].blocks++
	}
	return true
}

// tell stores what is held in the tree, on all levels that the place is on. A slot
// that is no longer ours closes the rank.
func (r *Rank) tell(at int, parent uint64) {
	if len(r.held) == 0 {
		return
	}
	for k := r.places.list[at].level; k < len(r.levels); k++ {
		if !r.cfg.Tree.Store(r.levels[k].slot, parent, r.held) {
			r.shut()
			return
		}
	}
}

// resolve applies an event that has hashes alone, as those of tiers beside the
// GPU's: blocks that are known are held there too.
func (r *Rank) resolve(e *kvevent.Event) {
	at := -1
	if e.Group < 0 || r.places.hasGroup(e.Group) {
		at = r.places.add(e.Tier, e.Group, r.levelOf(e.Tier))
	}
	if at < 0 {
		r.stats.Unresolved += uint64(len(e.Hashes))
		return
	}
	r.held = r.held[:0]
	for _, hash := range e.Hashes {
		rec := r.table.find(hash)
		switch {
		case rec == nil:
			r.stats.Unresolved++
		case r.again(rec, at, false):
			r.held = append(r.held, rec.fp)
		}
	}
	if len(r.held) > 0 {
		r.tell(at, r.held[0])
	}
}

// adopt applies the events whose parent has come, and those that hang on them.
func (r *Rank) adopt() {
	for len(r.ready) > 0 && !r.closed {
		o := r.ready[len(r.ready)-1]
		r.ready = r.ready[:len(r.ready)-1]
		if parent, known := r.parent(&o.event); known {
			r.hold(&o.event, parent, o.gone)
		}
	}
}

// remove counts one copy less of each of the event's blocks.
func (r *Rank) remove(e *kvevent.Event) {
	if r.groups.isSparse(e.Group) {
		return
	}
	at := r.places.find(e.Tier, e.Group)
	for _, hash := range e.Hashes {
		rec := r.table.find(hash)
		switch {
		case at >= 0 && rec != nil && rec.copies.count(at) > 0:
			r.drop(rec, at)
		case !r.aside.drop(hash, e.Tier, e.Group):
			r.stats.UnknownRemovals++
		}
	}
}

// drop counts one copy less. The tree hears of it with the next flush.
func (r *Rank) drop(rec *record, at int) {
	rec.copies = rec.copies.drop(at)
	if rec.copies.count(at) > 0 {
		return
	}
	p := &r.places.list[at]
	p.blocks--
	for k := p.level; k < len(r.levels) && !rec.copies.in(r.places.on[k]); k++ {
		r.levels[k].removed = append(r.levels[k].removed, rec.fp)
	}
	if rec.copies.none() {
		r.table.remove(rec)
	}
}

// flush takes from the tree what was removed since the last one, and tells of it.
func (r *Rank) flush() { r.withdraw(r.cfg.Removed) }

// withdraw takes from the tree what was removed, and tells that, unless tell is nil,
// of what is on no level any more.
func (r *Rank) withdraw(tell func([]uint64, time.Time)) {
	for k := range r.levels {
		l := &r.levels[k]
		if len(l.removed) == 0 {
			continue
		}
		if _, ok := r.cfg.Tree.Remove(l.slot, l.removed); !ok {
			r.shut()
			return
		}
		if l == r.last() && tell != nil {
			tell(l.removed, r.at)
		}
		l.removed = l.removed[:0]
	}
}
