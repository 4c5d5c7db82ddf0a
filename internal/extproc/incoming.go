package extproc

import (
	"bytes"
	"math"
	"unicode/utf8"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// incoming is a message of the gateway. What every request has is read here:
// [proto.Unmarshal] takes memory for each name, each value and each level, and fills
// maps by reflection. It reads all the rest, and whatever looks unusual.
type incoming struct {
	extproc.ProcessingRequest

	requestHeaders  extproc.ProcessingRequest_RequestHeaders
	responseHeaders extproc.ProcessingRequest_ResponseHeaders
	requestBody     extproc.ProcessingRequest_RequestBody
	responseBody    extproc.ProcessingRequest_ResponseBody
	headers         extproc.HttpHeaders
	body            extproc.HttpBody
}

// read takes in a message; it keeps nothing of data.
func (m *incoming) read(data []byte) error {
	m.Reset()
	rest, ok := m.parts(data)
	if !ok {
		m.Reset()
		rest = data
	}
	if len(rest) == 0 {
		return nil
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(rest, &m.ProcessingRequest)
}

// Reset lets go of all that the message holds.
func (m *incoming) Reset() {
	m.ProcessingRequest.Reset()
	m.headers.Reset()
	m.body.Reset()
}

// parts reads what it knows of a message and returns the rest, in the wire format
// too; it is false when the message is not for it.
func (m *incoming) parts(data []byte) (rest []byte, ok bool) {
	for len(data) > 0 {
		f, n := nextField(data)
		if n < 0 {
			return nil, false
		}
		switch f.number {
		case fieldMetadata, fieldObservability:
			if !f.empty() || f.number != fieldMetadata { // Envoy puts that on every message
				rest = append(rest, data[:n]...)
			}
		default:
			if f.kind != protowire.BytesType || !m.part(&f) {
				return nil, false
			}
		}
		data = data[n:]
	}
	return rest, true
}

// part reads a field that is a message; headers and bodies come once.
func (m *incoming) part(f *field) bool {
	first := m.Request == nil
	switch f.number {
	case fieldRequestHeaders:
		m.requestHeaders.RequestHeaders, m.Request = &m.headers, &m.requestHeaders
		return first && readHeaders(&m.headers, f.bytes)
	case fieldResponseHeaders:
		m.responseHeaders.ResponseHeaders, m.Request = &m.headers, &m.responseHeaders
		return first && readHeaders(&m.headers, f.bytes)
	case fieldRequestBody:
		m.requestBody.RequestBody, m.Request = &m.body, &m.requestBody
		return first && readBody(&m.body, f.bytes)
	case fieldResponseBody:
		m.responseBody.ResponseBody, m.Request = &m.body, &m.responseBody
		return first && readBody(&m.body, f.bytes)
	case fieldAttributes:
		return m.attribute(f.bytes)
	case fieldProtocolConfig:
		return m.protocol(f.bytes)
	default:
		return false
	}
}

func readBody(b *extproc.HttpBody, data []byte) bool {
	for len(data) > 0 {
		f, n := nextField(data)
		switch {
		case n < 0:
			return false
		case f.number == fieldBodyText && f.kind == protowire.BytesType:
			b.Body = bytes.Clone(f.bytes)
		case f.number == fieldBodyEnd && f.kind == protowire.VarintType:
			b.EndOfStream = f.bits != 0
		default:
			return false
		}
		data = data[n:]
	}
	return true
}

func readHeaders(h *extproc.HttpHeaders, data []byte) bool {
	for len(data) > 0 {
		f, n := nextField(data)
		switch {
		case n < 0:
			return false
		case f.number == fieldHeaderMap && f.kind == protowire.BytesType && h.Headers == nil:
			if h.Headers = readHeaderMap(f.bytes); h.Headers == nil {
				return false
			}
		case f.number == fieldHeadersEnd && f.kind == protowire.VarintType:
			h.EndOfStream = f.bits != 0
		default:
			return false
		}
		data = data[n:]
	}
	return true
}

// readHeaderMap keeps the names and the values of all headers in one piece of memory
// each. It is nil when it can't read them.
func readHeaderMap(data []byte) *core.HeaderMap {
	count := 0
	for rest := data; len(rest) > 0; count++ {
		f, n := nextField(rest)
		if n < 0 || f.number != fieldHeaderEntry || f.kind != protowire.BytesType {
			return nil
		}
		rest = rest[n:]
	}
	raw, text := bytes.Clone(data), string(data)
	values, list := make([]core.HeaderValue, count), make([]*core.HeaderValue, count)
	for i := range values {
		f, n := nextField(raw)
		if !readHeader(&values[i], f.bytes, text[n-len(f.bytes):n]) {
			return nil
		}
		list[i], raw, text = &values[i], raw[n:], text[n:]
	}
	return &core.HeaderMap{Headers: list}
}

// readHeader keeps parts of raw and of text, which are the same.
func readHeader(v *core.HeaderValue, raw []byte, text string) bool {
	for len(raw) > 0 {
		f, n := nextField(raw)
		if n < 0 || f.kind != protowire.BytesType {
			return false
		}
		part := text[n-len(f.bytes) : n]
		switch valid := utf8.ValidString(part); {
		case f.number == fieldHeaderRaw:
			v.RawValue = f.bytes
		case f.number == fieldHeaderKey && valid:
			v.Key = part
		case f.number == fieldHeaderString && valid:
			v.Value = part
		default:
			return false
		}
		raw, text = raw[n:], text[n:]
	}
	return true
}

// protocol reads how the gateway sends bodies.
func (m *incoming) protocol(data []byte) bool {
	if m.ProtocolConfig != nil {
		return false
	}
	m.ProtocolConfig = &extproc.ProtocolConfiguration{}
	for c := m.ProtocolConfig; len(data) > 0; {
		f, n := nextField(data)
		switch {
		case n < 0 || f.kind != protowire.VarintType:
			return false
		case f.number == fieldRequestMode:
			c.RequestBodyMode = mode(f.bits)
		case f.number == fieldResponseMode:
			c.ResponseBodyMode = mode(f.bits)
		case f.number == fieldSendAtOnce:
			c.SendBodyWithoutWaitingForHeaderResponse = f.bits != 0
		default:
			return false
		}
		data = data[n:]
	}
	return true
}

// attribute reads an entry of the map of attributes: a name, and a Struct.
func (m *incoming) attribute(data []byte) bool {
	name, value, ok := readEntry(data)
	if !ok {
		return false
	}
	told := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for len(value) > 0 {
		f, n := nextField(value)
		if n < 0 || f.number != fieldStructFields || f.kind != protowire.BytesType {
			return false
		}
		key, v, ok := readEntry(f.bytes)
		if !ok {
			return false
		}
		if told.Fields[key], ok = readValue(v); !ok {
			return false
		}
		value = value[n:]
	}
	if m.Attributes == nil {
		m.Attributes = map[string]*structpb.Struct{}
	}
	m.Attributes[name] = told
	return true
}

// readEntry reads an entry of a map, of a string to a message.
func readEntry(data []byte) (key string, value []byte, ok bool) {
	for len(data) > 0 {
		f, n := nextField(data)
		switch {
		case n < 0 || f.kind != protowire.BytesType:
			return "", nil, false
		case f.number == fieldEntryKey && utf8.Valid(f.bytes):
			key = string(f.bytes)
		case f.number == fieldEntryValue && value == nil:
			value = f.bytes
		default:
			return "", nil, false
		}
		data = data[n:]
	}
	return key, value, true
}

// readValue reads the value of an attribute when it is a text or a number.
func readValue(data []byte) (*structpb.Value, bool) {
	f, n := nextField(data)
	switch {
	case n < 0 || n < len(data):
	case f.number == fieldString && f.kind == protowire.BytesType && utf8.Valid(f.bytes):
		return structpb.NewStringValue(string(f.bytes)), true
	case f.number == fieldNumber && f.kind == protowire.Fixed64Type:
		return structpb.NewNumberValue(math.Float64frombits(f.bits)), true
	}
	return nil, false
}

// field is one of a message in the wire format.
type field struct {
	number protowire.Number
	kind   protowire.Type
	bytes  []byte // of the BytesType: a text, or a message
	bits   uint64 // of the others
}

func (f *field) empty() bool { return f.kind == protowire.BytesType && len(f.bytes) == 0 }

// nextField reads the first field of a message and its length, tag included: −1 for
// what is damaged, or of a type that is not in these messages.
func nextField(data []byte) (f field, length int) {
	number, kind, n := protowire.ConsumeTag(data)
	if n < 0 {
		return f, -1
	}
	m := -1
	f.number, f.kind = number, kind
	switch kind {
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes(data[n:])
	case protowire.VarintType:
		f.bits, m = protowire.ConsumeVarint(data[n:])
	case protowire.Fixed64Type:
		f.bits, m = protowire.ConsumeFixed64(data[n:])
	default:
	}
	if m < 0 {
		return f, -1
	}
	return f, n + m
}
