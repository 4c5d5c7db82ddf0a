package extproc

import (
	"bytes"
	"unicode/utf8"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// incoming is a message of the gateway. Headers and bodies, which every request
// has, are read here: [proto.Unmarshal] takes memory for each name, each value and
// each level. It reads all the rest, and whatever looks unusual.
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

// Numbers of fields in envoy/service/ext_proc/v3/external_processor.proto.
const (
	fieldRequestHeaders  = 2 // ProcessingRequest
	fieldResponseHeaders = 3
	fieldRequestBody     = 4
	fieldResponseBody    = 5
	fieldMetadata        = 8
	fieldAttributes      = 9
	fieldObservability   = 10
	fieldProtocolConfig  = 11

	fieldHeaderMap    = 1 // HttpHeaders
	fieldHeadersEnd   = 3
	fieldBodyText     = 1 // HttpBody
	fieldBodyEnd      = 2
	fieldHeaderEntry  = 1 // HeaderMap
	fieldHeaderKey    = 1 // HeaderValue
	fieldHeaderString = 2
	fieldHeaderRaw    = 3
)

// parts reads what it knows of a message and returns the rest, in the wire format
// too; it is false when the message is not for it.
func (m *incoming) parts(data []byte) (rest []byte, ok bool) {
	for len(data) > 0 {
		f, n := nextField(data)
		if n < 0 {
			return nil, false
		}
		switch f.number {
		case fieldRequestHeaders, fieldResponseHeaders, fieldRequestBody, fieldResponseBody:
			if m.Request != nil || !m.part(&f) {
				return nil, false
			}
		case fieldMetadata, fieldAttributes, fieldObservability, fieldProtocolConfig:
			if !f.empty() || f.number != fieldMetadata { // Envoy puts that on every message
				rest = append(rest, data[:n]...)
			}
		default:
			return nil, false
		}
		data = data[n:]
	}
	return rest, true
}

func (m *incoming) part(f *field) bool {
	if !f.isBytes {
		return false
	}
	switch f.number {
	case fieldRequestHeaders:
		m.requestHeaders.RequestHeaders, m.Request = &m.headers, &m.requestHeaders
		return readHeaders(&m.headers, f.bytes)
	case fieldResponseHeaders:
		m.responseHeaders.ResponseHeaders, m.Request = &m.headers, &m.responseHeaders
		return readHeaders(&m.headers, f.bytes)
	case fieldRequestBody:
		m.requestBody.RequestBody, m.Request = &m.body, &m.requestBody
	default:
		m.responseBody.ResponseBody, m.Request = &m.body, &m.responseBody
	}
	return readBody(&m.body, f.bytes)
}

func readBody(b *extproc.HttpBody, data []byte) bool {
	for len(data) > 0 {
		f, n := nextField(data)
		switch {
		case n < 0:
			return false
		case f.number == fieldBodyText && f.isBytes:
			b.Body = bytes.Clone(f.bytes)
		case f.number == fieldBodyEnd && !f.isBytes:
			b.EndOfStream = f.varint != 0
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
		case f.number == fieldHeaderMap && f.isBytes && h.Headers == nil:
			if h.Headers = readHeaderMap(f.bytes); h.Headers == nil {
				return false
			}
		case f.number == fieldHeadersEnd && !f.isBytes:
			h.EndOfStream = f.varint != 0
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
		if n < 0 || f.number != fieldHeaderEntry || !f.isBytes {
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
		if n < 0 || !f.isBytes {
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

// field is one of a message in the wire format.
type field struct {
	number  protowire.Number
	isBytes bool
	bytes   []byte // with isBytes: the text, or the message in it
	varint  uint64 // without
}

func (f *field) empty() bool { return f.isBytes && len(f.bytes) == 0 }

// nextField reads the first field of a message and its length, tag included: −1 for
// what is damaged, or of other types than those of [field].
func nextField(data []byte) (f field, length int) {
	number, kind, n := protowire.ConsumeTag(data)
	if n < 0 {
		return f, -1
	}
	m := -1
	f.number, f.isBytes = number, kind == protowire.BytesType
	switch kind {
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes(data[n:])
	case protowire.VarintType:
		f.varint, m = protowire.ConsumeVarint(data[n:])
	default:
	}
	if m < 0 {
		return f, -1
	}
	return f, n + m
}
