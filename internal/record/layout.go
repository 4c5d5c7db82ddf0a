package record

import (
	"encoding/binary"
	"math"
	"time"
	"unicode/utf8"
)

// A record is a header, an outcome of fixed size (so that it can be written in
// place later), and parts of variable size one after the other:
//
//	header · outcome · strings · order (u16) · chain (u64) · candidates · custom · texts · tiers · rewrite · gateway
//
// All numbers are little endian.
const (
	offSize     = 0  // u32, of the whole record
	offState    = 4  // u8, see the states below
	offFlags    = 5  // u8
	offRefused  = 6  // u8, score.Refusal
	offOrder    = 7  // u8, number of ranks
	offID       = 8  // 16 bytes, the decision's ID
	offTime     = 24 // i64, nanoseconds since 1970; noTime when out of range
	offScale    = 32 // f64
	offSeed     = 40 // u64
	offMargin   = 48 // f64, with flagMargin
	offRoster   = 56 // u32, into Ring.rosters
	offWeights  = 60 // u32, into Ring.weights
	offPods     = 64 // u16
	offChain    = 66 // u16, number of fingerprints
	offPicked   = 68 // i32
	offDecided  = 72 // i16, score.DecidedBy
	offCustom   = 74 // u8, number of custom scorers
	offMore     = 75 // u8, further flags
	offCounts   = 76 // i32 × 6: prompt tokens, prompts, prefix tokens, block size, blocks, predicted
	offTimings  = 100
	offLengths  = 124 // u8 × 8, of the strings
	offTexts    = 132 // u32, bytes of texts
	offBodyWait = 136 // u32, microseconds; 0 when not told
	headerSize  = 140
	offOutcome  = headerSize
	timingsUnit = 10 * time.Nanosecond
	noTime      = math.MinInt64
	maxPods     = math.MaxUint16
)

// States of a record. A record in stateWriting is nobody's but its writer's.
const (
	stateWriting = iota
	statePending
	stateDone
)

// Flags of a record.
const (
	flagReplaced = 1 << iota
	flagUnchecked
	flagStream
	flagRelaxed
	flagMargin
	flagSaved   // written to a file
	flagGateway // a gateway in front told something: see gateway.go
	flagTiers   // a cache match has blocks beside the GPU's: see tiers.go
)

// Further flags.
const moreRewrite = 1 // the model's name was rewritten: see rewrite.go

// The strings of a record, and how many bytes of each are kept.
const (
	strRequestID = iota
	strPath
	strModel
	strBase
	strAdapter
	strPolicy
	strTokensFrom
	strNoPrefix
	numStrings
)

var stringLimits = [numStrings]int{128, 128, 255, 255, 255, 32, 32, 200}

// A candidate.
const (
	candCache     = 0 // f64 × 4
	candLoad      = 8
	candWaiting   = 16
	candHealth    = 24
	candScore     = 32 // f64
	candAges      = 40 // u32 × 4, milliseconds
	candPending   = 56 // i32
	candInFlight  = 60 // i32
	candLoaded    = 64 // u16
	candSlots     = 66 // u16
	candStates    = 68 // u8 × 4: state in the lower half, source in the upper
	candAdapters  = 72 // u8: state, and adapterMatches
	candReason    = 73 // u8
	candPeers     = 74 // u16, pending of other replicas
	candidateSize = 76

	adapterMatches = 0x80
)

// A custom scorer's answer is a value (f64) and a state (u8); noAnswer stands for
// a result that is missing. A text is a pod (u16), a kind (u8: the factor whose
// note it is, or score.NumFactors plus the custom scorer), a length (u8) and bytes.
const (
	customSize = 9
	noAnswer   = 0xff
	textHead   = 4
	maxText    = 200
	maxCustom  = math.MaxUint8 - 5 // kinds of text are one byte
)

var le = binary.LittleEndian

func putFloat(b []byte, v float64) { le.PutUint64(b, math.Float64bits(v)) }

func getFloat(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }

func putInt32(b []byte, v int) {
	le.PutUint32(b, uint32(int32(min(max(v, math.MinInt32), math.MaxInt32))))
}

func getInt32(b []byte) int { return int(int32(le.Uint32(b))) }

// clip keeps at most n bytes of s and cuts no character in two.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// putString copies s, cut to at most n bytes, and returns how many it were.
func putString(b []byte, s string, n int) int { return copy(b, clip(s, n)) }

const hexDigits = "0123456789abcdef"

// uuidText is the usual spelling of a UUID.
func uuidText(id [16]byte) (text [36]byte) {
	at := 0
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text[at] = '-'
			at++
		}
		text[at], text[at+1] = hexDigits[b>>4], hexDigits[b&15]
		at += 2
	}
	return text
}
