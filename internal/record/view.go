package record

import (
	"fmt"
	"math"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// view is a record's bytes together with what it shares with others. Whoever
// holds one may read it without a lock: the bytes are a copy, and the rest never
// changes.
type view struct {
	raw     []byte
	roster  *roster
	weights *score.Weights
	keyed   func(fingerprints []byte) []string
}

// parts are the variable parts of a record.
type parts struct {
	strings                                [numStrings][]byte
	order, chain, pods                     []byte
	custom, texts, tiers, rewrite, gateway []byte
	candidates, customScores               int
}

func (v *view) parts() (p parts) {
	var rest []byte
	p.strings, rest = v.strings()
	next := func(n int) []byte {
		part := rest[:n]
		rest = rest[n:]
		return part
	}
	p.candidates, p.customScores = int(le.Uint16(v.raw[offPods:])), int(v.raw[offCustom])
	p.order = next(2 * int(v.raw[offOrder]))
	p.chain = next(8 * int(le.Uint16(v.raw[offChain:])))
	p.pods = next(candidateSize * p.candidates)
	p.custom = next(customSize * p.candidates * p.customScores)
	p.texts = next(int(le.Uint32(v.raw[offTexts:])))
	if v.flag(flagTiers) {
		p.tiers = next(int(le.Uint32(next(tiersLength))))
	}
	if v.raw[offMore]&moreRewrite != 0 {
		p.rewrite = next(int(le.Uint16(next(rewriteLength))))
	}
	p.gateway = rest
	return p
}

// strings are the texts of the header, and what follows them.
func (v *view) strings() (texts [numStrings][]byte, rest []byte) {
	rest = v.raw[stringsAt(v.raw):]
	for i := range texts {
		n := int(v.raw[offLengths+i])
		texts[i], rest = rest[:n], rest[n:]
	}
	return texts, rest
}

// record makes the document. It depends on nothing but the bytes and the key.
func (v *view) record() *explain.Record {
	p := v.parts()
	id := uuidText([16]byte(v.raw[offID:]))
	rec := &explain.Record{
		APIVersion: explain.APIVersion, Kind: explain.KindDecision,
		DecisionID: string(id[:]), RequestID: valid(p.strings[strRequestID]),
		Time: timeOf(v.raw), TimeScale: getFloat(v.raw[offScale:]),
		RequestIDReplaced: v.flag(flagReplaced), Policy: valid(p.strings[strPolicy]),
		Request: v.request(&p), Weights: explain.RecordWeights(v.weights), Seed: le.Uint64(v.raw[offSeed:]),
		Candidates: v.candidates(&p), Timings: v.timings(),
	}
	rec.Request.Chain = v.keyed(p.chain)
	rec.Result = v.result(&p, rec.Candidates)
	rec.Gateway = v.gateway(&p, &rec.Result)
	rec.Outcome, rec.Attempts = v.outcome()
	rec.Seal()
	return rec
}

func (v *view) flag(f uint8) bool { return v.raw[offFlags]&f != 0 }

func timeOf(raw []byte) time.Time {
	ns := int64(le.Uint64(raw[offTime:]))
	if ns == noTime {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func (v *view) request(p *parts) explain.Request {
	n := func(i int) int { return getInt32(v.raw[offCounts+4*i:]) }
	return explain.Request{
		Path: valid(p.strings[strPath]), Model: valid(p.strings[strModel]), Base: valid(p.strings[strBase]),
		Adapter: valid(p.strings[strAdapter]), ModelUnchecked: v.flag(flagUnchecked), Rewrite: p.rewriteOf(),
		PromptTokens: n(0), Prompts: n(1), PrefixTokens: n(2), BlockSize: n(3), Blocks: n(4),
		TokensFrom: valid(p.strings[strTokensFrom]), NoPrefix: valid(p.strings[strNoPrefix]), Stream: v.flag(flagStream),
	}
}

func (v *view) timings() explain.Timings {
	s := func(i int) float64 {
		return (time.Duration(le.Uint32(v.raw[offTimings+4*i:])) * timingsUnit).Seconds()
	}
	var tokens *float64 // 0 when it was no stage of its own
	if t := s(1); t > 0 {
		tokens = &t
	}
	var body *float64
	if us := le.Uint32(v.raw[offBodyWait:]); us > 0 {
		body = new((time.Duration(us) * time.Microsecond).Seconds())
	}
	return explain.Timings{Body: body, Parse: s(0), Tokens: tokens, Lookup: s(2), Scorers: s(3), Decide: s(4), Total: s(5)}
}

func (v *view) result(p *parts, candidates []explain.Candidate) explain.Result {
	out := explain.Result{
		Index:     max(getInt32(v.raw[offPicked:]), -1),
		DecidedBy: score.DecidedBy(int16(le.Uint16(v.raw[offDecided:]))).Name(v.weights),
		Relaxed:   v.flag(flagRelaxed),
		Refused:   score.Refusal(v.raw[offRefused]).String(),
		Order:     make([]int, 0, len(p.order)/2),
	}
	for at := 0; at < len(p.order); at += 2 {
		out.Order = append(out.Order, int(le.Uint16(p.order[at:])))
	}
	if out.Index >= 0 {
		c := &candidates[out.Index]
		out.Pod, out.Endpoint, out.Score = c.Pod, c.Endpoint, c.Score
	}
	if v.flag(flagMargin) {
		out.Margin = new(getFloat(v.raw[offMargin:]))
	}
	return out
}

func (v *view) candidates(p *parts) []explain.Candidate {
	notes, details := p.readTexts()
	tiers := p.tiersOf()
	out := make([]explain.Candidate, p.candidates)
	for i := range out {
		b, note := p.pods[candidateSize*i:], notes[i]
		c := &out[i]
		c.Pod, c.Endpoint = v.roster.pod(i), v.roster.endpoint(i)
		c.Reason, c.Score = score.Reason(b[candReason]).String(), getFloat(b[candScore:])
		c.Cache = reading(b, 0, note[score.CacheMatch])
		if c.Cache.Value != nil {
			c.Cache.Tiers = tiers[i]
		}
		c.Load = reading(b, 1, note[score.Load])
		c.Waiting = reading(b, 2, note[score.QueueDepth])
		c.Health = reading(b, 3, note[score.Health])
		c.Pending, c.InFlight = getInt32(b[candPending:]), getInt32(b[candInFlight:])
		c.PeerPending = int(le.Uint16(b[candPeers:]))
		c.Adapters = explain.Adapters{
			State: stateName(b[candAdapters] &^ adapterMatches), Match: b[candAdapters]&adapterMatches != 0,
			Loaded: int(le.Uint16(b[candLoaded:])), Max: int(le.Uint16(b[candSlots:])), Detail: note[score.AdapterMatch],
		}
		for k := range p.customScores {
			at := i*p.customScores + k
			c.Custom = append(c.Custom, customValue(v.weights.Custom[k].Name, p.custom[customSize*at:], details[at]))
		}
	}
	return out
}

// reading is the k-th reading of a candidate: cache, load, waiting, health.
func reading(b []byte, k int, note string) explain.Input {
	r := score.Reading{
		Value: getFloat(b[candCache+8*k:]),
		Age:   time.Duration(le.Uint32(b[candAges+4*k:])) * time.Millisecond,
		State: state(b[candStates+k] & 15), Source: score.Source(b[candStates+k] >> 4),
	}
	if r.Source > score.SourceManual {
		r.Source = score.SourceNone
	}
	return explain.RecordInput(r, note)
}

// state is a recorded state; what the engine doesn't know it takes for Unknown.
func state(b uint8) score.State {
	if b > uint8(score.NotApplicable) {
		return score.Unknown
	}
	return score.State(b)
}

func stateName(b uint8) string { return state(b).String() }

// customValue is a custom scorer's answer in such a form that the engine makes of
// it what it made of the original, see [score.CustomResult].
func customValue(name string, cell []byte, detail string) explain.CustomValue {
	value, s := getFloat(cell), cell[8]
	out := explain.CustomValue{Name: name, State: score.Unknown.String(), Detail: detail}
	switch {
	case s == noAnswer:
		out.Detail = "no answer"
	case math.IsNaN(value) || math.IsInf(value, 0):
		if detail == "" {
			out.Detail = fmt.Sprint(value)
		}
	case state(s) != score.Unknown: // what is no state is unknown to the engine too
		out.Value, out.State = &value, stateName(s)
	}
	return out
}

// readTexts returns the notes of each candidate and the details of custom
// scorers, the latter candidate by candidate.
func (p *parts) readTexts() (notes []score.Notes, details []string) {
	notes, details = make([]score.Notes, p.candidates), make([]string, p.candidates*p.customScores)
	for rest := p.texts; len(rest) > 0; {
		pod, kind, n := int(le.Uint16(rest)), int(rest[2]), int(rest[3])
		text := valid(rest[textHead : textHead+n])
		if kind < score.NumFactors {
			notes[pod][kind] = text
		} else {
			details[pod*p.customScores+kind-score.NumFactors] = text
		}
		rest = rest[textHead+n:]
	}
	return notes, details
}
