package record

import (
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// The outcome's area. Pods stand as indices into the roster; texts (the error,
// endpoints that the roster doesn't hold, errors of attempts) share the text area
// in the order in which they are read back. With flagGateway the area is longer:
// there is more to tell.
const (
	outStatus   = 0  // u16
	outAttempts = 2  // u8
	outError    = 3  // u8, length
	outServed   = 4  // i32: index, or one of the below
	outTTFT     = 8  // i64, nanoseconds, negative when unknown
	outDuration = 16 // i64
	outPrompt   = 24 // i32 × 3: prompt, cached, output tokens; −1 when unknown
	outServedIs = 36 // u8, length
	outSent     = 37 // u8, attempts of a gateway in front; 0 when not told
	outUnknown  = 38 // u8 × 3, lengths: why the end is unknown, flags, details
	outClass    = 41 // u8, place in explain.Predictions, from 1; 0 for none
	outTries    = 42 // attemptSize × maxAttempts
	outText     = outTries + attemptSize*maxAttempts
	outTextSize = 120
	outcomeSize = outText + outTextSize
	// outGatewaySize is how much longer the area is with flagGateway.
	outGatewaySize = maxFlags + maxDetails

	maxAttempts = 4
	attemptSize = 7 // i32 index, u8 × 3: lengths of pod, endpoint, error
	maxError    = 64
	maxFlags    = 32
	maxDetails  = 120

	inText = -1 // its name stands in the texts
)

// outcomeOf is the outcome's area of a record, and stringsAt where it ends.
func outcomeOf(raw []byte) []byte { return raw[offOutcome:stringsAt(raw)] }

func stringsAt(raw []byte) int {
	if raw[offFlags]&flagGateway != 0 {
		return offOutcome + outcomeSize + outGatewaySize
	}
	return offOutcome + outcomeSize
}

// encode fills the zeroed area.
func (o *Outcome) encode(b []byte, names *roster, picked int) {
	le.PutUint16(b[outStatus:], uint16(min(max(o.Status, 0), 999)))
	le.PutUint64(b[outTTFT:], uint64(max(o.TTFT, -1)))
	le.PutUint64(b[outDuration:], uint64(max(o.Duration, -1)))
	for i, v := range [...]int{o.PromptTokens, o.CachedTokens, o.OutputTokens} {
		putInt32(b[outPrompt+4*i:], max(v, -1))
	}
	b[outClass] = uint8(slices.Index(explain.Predictions(), o.Prediction) + 1)
	text := b[outText:]
	put := func(length *byte, s string, limit int) {
		*length = uint8(putString(text, s, min(limit, len(text))))
		text = text[*length:]
	}
	put(&b[outError], o.Error, maxError)
	b[outSent] = uint8(min(max(o.Sent, 0), 255))
	put(&b[outUnknown], o.Unknown, maxError)
	if len(b) > outcomeSize {
		put(&b[outUnknown+1], o.Flags, maxFlags)
		put(&b[outUnknown+2], o.Details, maxDetails)
	}
	served := names.find(o.ServedEndpoint, picked)
	putInt32(b[outServed:], served)
	if served == inText {
		put(&b[outServedIs], o.ServedEndpoint, len(text))
	}
	n := min(len(o.Attempts), maxAttempts)
	b[outAttempts] = uint8(n)
	for i := range n {
		a, cell := &o.Attempts[i], b[outTries+attemptSize*i:]
		known := names.find(a.Endpoint, picked)
		if known >= 0 && names.pod(known) != a.Pod {
			known = inText
		}
		putInt32(cell, known)
		if known == inText {
			put(&cell[4], a.Pod, len(text))
			put(&cell[5], a.Endpoint, len(text))
		}
		put(&cell[6], a.Error, maxError)
	}
}

// outcome reads the area of a record back.
func (v *view) outcome() (explain.Outcome, []explain.Attempt) {
	b := outcomeOf(v.raw)
	o := explain.Outcome{State: explain.OutcomePending, PredictedCached: count(v.raw[offCounts+4*5:])}
	if v.raw[offState] != stateDone {
		return o, nil
	}
	text := b[outText:]
	take := func(n byte) string {
		s := valid(text[:n])
		text = text[n:]
		return s
	}
	o.State, o.Status = explain.OutcomeDone, int(le.Uint16(b[outStatus:]))
	o.Error = take(b[outError])
	if o.Detail = take(b[outUnknown]); o.Detail != "" {
		o.State = explain.OutcomeUnknown
	}
	if class, all := int(b[outClass]), explain.Predictions(); class > 0 && class <= len(all) {
		o.Prediction = all[class-1]
	}
	if sent := int(b[outSent]); sent > 0 {
		o.Attempts = &sent
	}
	o.Flags, o.CodeDetails = take(b[outUnknown+1]), take(b[outUnknown+2])
	if i := getInt32(b[outServed:]); i != inText {
		o.ServedEndpoint = v.roster.endpoint(i)
	} else {
		o.ServedEndpoint = take(b[outServedIs])
	}
	o.TTFTSeconds, o.DurationSeconds = seconds(b[outTTFT:]), seconds(b[outDuration:])
	o.PromptTokens, o.CachedTokens, o.OutputTokens = count(b[outPrompt:]), count(b[outPrompt+4:]), count(b[outPrompt+8:])
	var attempts []explain.Attempt
	for i := range int(b[outAttempts]) {
		cell := b[outTries+attemptSize*i:]
		var a explain.Attempt
		if known := getInt32(cell); known != inText {
			a.Pod, a.Endpoint = v.roster.pod(known), v.roster.endpoint(known)
		} else {
			a.Pod, a.Endpoint = take(cell[4]), take(cell[5])
		}
		a.Error = take(cell[6])
		attempts = append(attempts, a)
	}
	return o, attempts
}

// count is a number that is null when it is negative.
func count(b []byte) *int {
	if n := getInt32(b); n >= 0 {
		return &n
	}
	return nil
}

// seconds is a duration that is null when it is negative.
func seconds(b []byte) *float64 {
	if ns := int64(le.Uint64(b)); ns >= 0 {
		return new(time.Duration(ns).Seconds())
	}
	return nil
}

// valid is a text as JSON would write it, so that it is the same after a round trip.
func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
