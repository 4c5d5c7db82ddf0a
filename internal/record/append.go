package record

import (
	"math"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

// shape is the size of an entry's variable parts.
type shape struct {
	strings, chain, custom         int
	texts, tiers, rewrite, gateway int // bytes
	total                          int
}

// measure finds out how many bytes the entry takes. It fails on an entry that
// contradicts itself or is beyond what the layout can count.
func (e *Entry) measure() (s shape, ok bool) {
	in, d := e.Inputs, e.Decision
	if in == nil || d == nil || in.Request == nil || in.Weights == nil {
		return s, false
	}
	s.custom = len(in.Weights.Custom)
	if len(in.Pods) > maxPods || len(d.Results) != len(in.Pods) || e.Picked >= len(in.Pods) ||
		len(d.Order) > score.OrderLength || s.custom > maxCustom {
		return s, false
	}
	for i, text := range e.strings() {
		s.strings += len(clip(text, stringLimits[i]))
	}
	s.chain = explain.ChainLength(len(e.Fingerprints), e.BlockSize)
	s.texts = e.textBytes()
	s.tiers, s.rewrite, s.gateway = e.tierBytes(), e.Rewrite.size(), e.gatewaySize()
	s.total = offOutcome + outcomeSize + s.tiers + s.rewrite + s.gateway + s.strings + 2*len(d.Order) + 8*s.chain + s.texts +
		len(in.Pods)*(candidateSize+customSize*s.custom)
	return s, true
}

// withoutTexts is the shape of the entry with notes and details left out.
func (s shape) withoutTexts() shape {
	s.total -= s.texts
	s.texts = 0
	return s
}

func (e *Entry) strings() [numStrings]string {
	req := e.Inputs.Request
	return [numStrings]string{
		strRequestID: e.RequestID, strPath: e.Path, strModel: e.Model, strBase: req.Model, strAdapter: req.Adapter,
		strPolicy: e.Policy, strTokensFrom: e.TokensFrom, strNoPrefix: req.NoPrefix,
	}
}

func (e *Entry) textBytes() (n int) {
	add := func(text string) {
		if text != "" {
			n += textHead + len(clip(text, maxText))
		}
	}
	pods := e.Inputs.Pods
	for i := range pods {
		if notes := pods[i].Notes; notes != nil {
			for _, note := range notes {
				add(note)
			}
		}
	}
	for k := range min(len(e.Inputs.Extra), len(e.Inputs.Weights.Custom)) {
		values := e.Inputs.Extra[k].Values
		for i := range min(len(values), len(pods)) {
			add(values[i].Detail)
		}
	}
	return n
}

// encode fills b, which is exactly as long as the shape says. The size and the
// state were written when the space was claimed.
func (e *Entry) encode(b []byte, s shape, refs refs) {
	e.encodeHeader((*[headerSize]byte)(b), s, refs)
	at := stringsAt(b)
	clear(b[offOutcome:at])
	for i, text := range e.strings() {
		n := putString(b[at:], text, stringLimits[i])
		b[offLengths+i] = uint8(n)
		at += n
	}
	for _, rank := range e.Decision.Order {
		le.PutUint16(b[at:], uint16(rank.Pod))
		at += 2
	}
	at += e.encodeChain(b[at:], s.chain)
	pods, adapter := e.Inputs.Pods, e.Inputs.Request.Adapter
	for i := range pods {
		encodeCandidate((*[candidateSize]byte)(b[at:]), &pods[i], &e.Decision.Results[i], adapter)
		at += candidateSize
	}
	at += e.encodeCustom(b[at:], s.custom)
	if s.texts > 0 {
		e.encodeTexts(b[at:])
	}
	at += s.texts
	if s.tiers > 0 {
		e.encodeTiers(b[at : at+s.tiers])
	}
	at += s.tiers
	if s.rewrite > 0 {
		e.Rewrite.encode(b[at : at+s.rewrite])
	}
	if s.gateway > 0 {
		e.encodeGateway(b[at+s.rewrite:])
	}
}

func (e *Entry) encodeHeader(b *[headerSize]byte, s shape, refs refs) {
	in, d := e.Inputs, e.Decision
	b[offFlags] = bit(e.RequestIDReplaced, flagReplaced) | bit(e.ModelUnchecked, flagUnchecked) |
		bit(e.Stream, flagStream) | bit(d.Relaxed, flagRelaxed) | bit(d.RunnerUp >= 0, flagMargin) |
		bit(s.gateway > 0, flagGateway) | bit(s.tiers > 0, flagTiers)
	b[offRefused], b[offOrder] = uint8(d.Refused), uint8(len(d.Order))
	*(*[16]byte)(b[offID:]) = e.DecisionID
	le.PutUint64(b[offTime:], uint64(nanoseconds(in.Request.Arrival)))
	putFloat(b[offScale:], e.TimeScale)
	le.PutUint64(b[offSeed:], in.Seed&score.MaxSeed)
	putFloat(b[offMargin:], d.Margin)
	le.PutUint32(b[offRoster:], refs.roster)
	le.PutUint32(b[offWeights:], refs.weights)
	le.PutUint16(b[offPods:], uint16(len(in.Pods)))
	le.PutUint16(b[offChain:], uint16(s.chain))
	putInt32(b[offPicked:], e.Picked)
	le.PutUint16(b[offDecided:], uint16(d.DecidedBy))
	b[offCustom], b[offMore] = uint8(s.custom), bit(s.rewrite > 0, moreRewrite)
	counts := [...]int{in.Request.Count, e.Prompts, e.PrefixTokens, e.BlockSize, in.Request.Blocks, e.PredictedCached}
	for i, v := range counts {
		putInt32(b[offCounts+4*i:], v)
	}
	t := &e.Timings
	stages := [...]time.Duration{t.Parse, t.Tokens, t.Lookup, t.Scorers, t.Decide, t.Total}
	for i, v := range stages {
		le.PutUint32(b[offTimings+4*i:], tens(v))
	}
	le.PutUint32(b[offTexts:], uint32(s.texts))
	le.PutUint32(b[offBodyWait:], bodyWait(t.BodyWait))
}

func (e *Entry) encodeChain(b []byte, n int) int {
	blocks := len(e.Fingerprints)
	for i := range n {
		le.PutUint64(b[8*i:], e.Fingerprints[explain.ChainBlock(i, blocks, e.BlockSize)-1])
	}
	return 8 * n
}

func encodeCandidate(b *[candidateSize]byte, p *score.PodState, r *score.PodResult, adapter string) {
	putFloat(b[candCache:], p.Cache.Value)
	putFloat(b[candLoad:], p.Utilization.Value)
	putFloat(b[candWaiting:], p.Waiting.Value)
	putFloat(b[candHealth:], p.Health.Value)
	putFloat(b[candScore:], r.Score)
	le.PutUint32(b[candAges:], millis(p.Cache.Age))
	le.PutUint32(b[candAges+4:], millis(p.Utilization.Age))
	le.PutUint32(b[candAges+8:], millis(p.Waiting.Age))
	le.PutUint32(b[candAges+12:], millis(p.Health.Age))
	putInt32(b[candPending:], p.Pending)
	putInt32(b[candInFlight:], p.InFlight)
	le.PutUint16(b[candLoaded:], uint16(min(len(p.Adapters), math.MaxUint16)))
	le.PutUint16(b[candSlots:], uint16(min(max(p.MaxAdapters, 0), math.MaxUint16)))
	b[candStates] = origin(&p.Cache)
	b[candStates+1] = origin(&p.Utilization)
	b[candStates+2] = origin(&p.Waiting)
	b[candStates+3] = origin(&p.Health)
	b[candAdapters] = uint8(min(p.AdapterState, 15)) | bit(adapter != "" && adapterMatch(p, r, adapter), adapterMatches)
	b[candReason] = uint8(r.Reason)
	le.PutUint16(b[candPeers:], uint16(min(max(p.PeerPending, 0), math.MaxUint16)))
}

// adapterMatch reports whether the adapter is loaded. Where the engine has looked
// for it, its finding is taken: that is a quarter of the time of an Append.
func adapterMatch(p *score.PodState, r *score.PodResult, adapter string) bool {
	if p.AdapterState.Usable() {
		return r.Values[score.AdapterMatch] == 1
	}
	return p.HasAdapter(adapter)
}

// origin is a reading's state and source in one byte.
func origin(r *score.Reading) uint8 { return uint8(min(r.State, 15)) | uint8(min(r.Source, 15))<<4 }

func (e *Entry) encodeCustom(b []byte, scorers int) int {
	extra, pods := e.Inputs.Extra, len(e.Inputs.Pods)
	if scorers == 0 {
		return 0
	}
	at := 0
	for i := range pods {
		for k := range scorers {
			cell := (*[customSize]byte)(b[at:])
			*cell = [customSize]byte{8: noAnswer}
			if k < len(extra) && i < len(extra[k].Values) {
				putFloat(cell[:], extra[k].Values[i].Value)
				cell[8] = uint8(min(extra[k].Values[i].State, noAnswer-1))
			}
			at += customSize
		}
	}
	return at
}

func (e *Entry) encodeTexts(b []byte) {
	at := 0
	put := func(pod, kind int, text string) {
		if text == "" {
			return
		}
		le.PutUint16(b[at:], uint16(pod))
		n := putString(b[at+textHead:], text, maxText)
		b[at+2], b[at+3] = uint8(kind), uint8(n)
		at += textHead + n
	}
	pods := e.Inputs.Pods
	for i := range pods {
		if notes := pods[i].Notes; notes != nil {
			for f, note := range notes {
				put(i, f, note)
			}
		}
	}
	for k := range min(len(e.Inputs.Extra), len(e.Inputs.Weights.Custom)) {
		values := e.Inputs.Extra[k].Values
		for i := range min(len(values), len(pods)) {
			put(i, score.NumFactors+k, values[i].Detail)
		}
	}
}

func bit(set bool, flag uint8) uint8 {
	if set {
		return flag
	}
	return 0
}

// millis is d in milliseconds, rounded; what is negative becomes 0 and what is
// too long the longest.
func millis(d time.Duration) uint32 {
	const longest = math.MaxUint32 * time.Millisecond
	if uint64(d) < uint64(longest) { // one comparison for both ends: this runs four times a pod
		return uint32((uint64(d) + uint64(time.Millisecond/2)) / uint64(time.Millisecond))
	}
	if d < 0 {
		return 0
	}
	return math.MaxUint32
}

// tens is d in units of 10 ns, rounded in the same way.
func tens(d time.Duration) uint32 {
	return uint32(min(max(d, 0)/(timingsUnit/2)+1, 2*math.MaxUint32) / 2)
}

// bodyWait is d in microseconds, rounded up, so that what was told is never 0.
func bodyWait(d time.Duration) uint32 {
	const longest = math.MaxUint32 * time.Microsecond
	return uint32((min(max(d, 0), longest) + time.Microsecond - 1) / time.Microsecond)
}

// nanoseconds is t since 1970, or noTime beyond the years 1678 to 2261.
func nanoseconds(t time.Time) int64 {
	if y := t.Year(); y < 1678 || y > 2261 {
		return noTime
	}
	return t.UnixNano()
}
