package extproc

import (
	"math"
	"slices"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// The replies that every request gets are written here in the wire format:
// protobuf measures each level of a message twice, and goes through maps by
// reflection. Messages are written from the inside, see [wrap].

// raw is a message in the wire format. It is not changed any more.
type raw []byte

// Numbers of the fields that are read and written in the wire format, by the file that
// has them; the name of a message is at its first field.
const (
	// envoy/service/ext_proc/v3/external_processor.proto
	fieldRequestHeaders  = 2 // ProcessingRequest
	fieldResponseHeaders = 3
	fieldRequestBody     = 4
	fieldResponseBody    = 5
	fieldMetadata        = 8
	fieldAttributes      = 9
	fieldObservability   = 10
	fieldProtocolConfig  = 11
	fieldRequestMode     = 1 // ProtocolConfiguration
	fieldResponseMode    = 2
	fieldSendAtOnce      = 3
	fieldHeaderMap       = 1 // HttpHeaders
	fieldHeadersEnd      = 3
	fieldBodyText        = 1 // HttpBody
	fieldBodyEnd         = 2

	fieldRequestHeadersReply  = 1 // ProcessingResponse
	fieldResponseHeadersReply = 2
	fieldRequestBodyReply     = 3
	fieldResponseBodyReply    = 4
	fieldDynamicMetadata      = 8
	fieldCommon               = 1 // HeadersResponse, BodyResponse
	fieldHeaderMutation       = 2 // CommonResponse
	fieldBodyMutation         = 3
	fieldClearRouteCache      = 5
	fieldSetHeaders           = 1 // HeaderMutation
	fieldRemoveHeaders        = 2
	fieldMutatedBody          = 1 // BodyMutation
	fieldStreamed             = 3
	fieldPieceText            = 1 // StreamedBodyResponse
	fieldPieceEnd             = 2

	// envoy/config/core/v3/base.proto
	fieldHeaderEntry  = 1 // HeaderMap
	fieldHeaderKey    = 1 // HeaderValue
	fieldHeaderString = 2
	fieldHeaderRaw    = 3
	fieldOptionHeader = 1 // HeaderValueOption
	fieldAppendAction = 3

	// google/protobuf/struct.proto
	fieldStructFields = 1 // Struct
	fieldNumber       = 2 // Value
	fieldString       = 3
	fieldStruct       = 5

	// Entries of maps are in no file: they are the same in all of them.
	fieldEntryKey   = 1
	fieldEntryValue = 2
)

// wrap makes a message of b[from:] and of as many bytes more as are to follow: it
// puts the number of the field that has it before it, and its length.
func wrap(b []byte, from int, field protowire.Number, more int) []byte {
	var head [2 * 10]byte // two varints
	h := protowire.AppendTag(head[:0], field, protowire.BytesType)
	h = protowire.AppendVarint(h, uint64(len(b)-from+more))
	return slices.Insert(b, from, h...)
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// appendHeader sets a header to one value, in a HeaderMutation.
func appendHeader(b []byte, name, value string) []byte {
	from := len(b)
	b = appendText(b, fieldHeaderKey, name)
	b = appendText(b, fieldHeaderRaw, value)
	b = wrap(b, from, fieldOptionHeader, 0)
	b = appendNumber(b, fieldAppendAction, uint64(core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))
	return wrap(b, from, fieldSetHeaders, 0)
}

// appendEntry adds a field to a Struct; value appends what is in its Value.
func appendEntry(b []byte, key string, value func(b []byte) []byte) []byte {
	from := len(b)
	b = appendText(b, fieldEntryKey, key)
	at := len(b)
	b = wrap(value(b), at, fieldEntryValue, 0)
	return wrap(b, from, fieldStructFields, 0)
}

func appendString(b []byte, key, text string) []byte {
	return appendEntry(b, key, func(b []byte) []byte { return appendText(b, fieldString, text) })
}

func appendFloat(b []byte, key string, v float64) []byte {
	return appendEntry(b, key, func(b []byte) []byte {
		return protowire.AppendFixed64(protowire.AppendTag(b, fieldNumber, protowire.Fixed64Type), math.Float64bits(v))
	})
}

func appendStruct(b []byte, key string, fields func(b []byte) []byte) []byte {
	return appendEntry(b, key, func(b []byte) []byte {
		from := len(b)
		return wrap(fields(b), from, fieldStruct, 0)
	})
}

// piece is the reply that passes on a piece of a body; of is the field that tells
// which body's.
type piece struct {
	of   protowire.Number
	text []byte
	last bool
}

// marshal copies the text, into memory that is used again.
func (p *piece) marshal() mem.BufferSlice {
	var room [64]byte
	head := room[:0]
	if p.last {
		head = appendNumber(head, fieldPieceEnd, 1)
	}
	if len(p.text) > 0 {
		head = wrap(head, len(head), fieldPieceText, len(p.text))
	}
	for _, field := range [...]protowire.Number{fieldStreamed, fieldBodyMutation, fieldCommon, p.of} {
		head = wrap(head, 0, field, len(p.text))
	}
	size := len(head) + len(p.text)
	if mem.IsBelowBufferPoolingThreshold(size) {
		return mem.BufferSlice{mem.SliceBuffer(slices.Concat(head, p.text))}
	}
	pool := poolFor(size)
	b := pool.Get(size)
	copy((*b)[copy(*b, head):], p.text)
	return mem.BufferSlice{mem.NewBuffer(b, pool)}
}
