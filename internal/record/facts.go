package record

import (
	"math"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// document is a record as [facts].
type document explain.Record

func (d *document) row() explain.Row { return explain.Summarize((*explain.Record)(d)) }

func (d *document) cacheRatio() (float64, bool) {
	if i := d.Result.Index; i >= 0 && i < len(d.Candidates) && d.Request.Blocks > 0 {
		cache := &d.Candidates[i].Cache
		if cache.Value != nil && (cache.State == score.Known.String() || cache.State == score.Clamped.String()) {
			return *cache.Value / float64(d.Request.Blocks), true
		}
	}
	return 0, false
}

func (d *document) excluded(pod string) bool {
	for i := range d.Candidates {
		if c := &d.Candidates[i]; c.Reason != "" && (c.Pod == pod || c.Endpoint == pod) {
			return true
		}
	}
	return false
}

func (d *document) firstBlock() string {
	if len(d.Request.Chain) == 0 {
		return ""
	}
	return d.Request.Chain[0]
}

func (v *view) firstBlock() string {
	p := v.parts()
	if len(p.chain) == 0 {
		return ""
	}
	return v.keyed(p.chain[:8])[0]
}

// row summarizes what stands in the header and the outcome: enough for a query,
// without making the candidates.
func (v *view) row() explain.Row {
	texts, _ := v.strings()
	rec := explain.Record{
		Policy: valid(texts[strPolicy]),
		Result: explain.Result{
			Index: -1, DecidedBy: score.DecidedBy(int16(le.Uint16(v.raw[offDecided:]))).Name(v.weights),
			Refused: score.Refusal(v.raw[offRefused]).String(),
		},
	}
	if picked := getInt32(v.raw[offPicked:]); picked >= 0 {
		rec.Result.Endpoint = v.roster.endpoint(picked)
	}
	if v.flag(flagMargin) {
		rec.Result.Margin = new(getFloat(v.raw[offMargin:]))
	}
	rec.Outcome, rec.Attempts = v.outcome()
	return explain.Summarize(&rec)
}

func (v *view) cacheRatio() (float64, bool) {
	picked, blocks := getInt32(v.raw[offPicked:]), getInt32(v.raw[offCounts+4*4:])
	if picked < 0 || blocks <= 0 {
		return 0, false
	}
	b := v.cells()[candidateSize*picked:]
	held := getFloat(b[candCache:])
	if math.IsNaN(held) || math.IsInf(held, 0) { // a document has no value then
		return 0, false
	}
	return held / float64(blocks), state(b[candStates] & 15).Usable()
}

func (v *view) excluded(pod string) bool {
	for i, cells := 0, v.cells(); len(cells) >= candidateSize; i, cells = i+1, cells[candidateSize:] {
		if score.Reason(cells[candReason]) != score.Eligible && (v.roster.pod(i) == pod || v.roster.endpoint(i) == pod) {
			return true
		}
	}
	return false
}

// cells are the bytes of the candidates.
func (v *view) cells() []byte { p := v.parts(); return p.pods }
