package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrTooLarge is a body over the limit of bytes.
var ErrTooLarge = errors.New("the report is too large")

// An Error is what is wrong with a report, and where.
type Error struct {
	Place  string // as in chains[2].blocks[7]
	Detail string
}

// Error implements error.
func (e *Error) Error() string { return e.Place + ": " + e.Detail }

// maxDetail bounds what of the report's own text an error repeats.
const maxDetail = 200

func bad(detail, place string, args ...any) *Error {
	if len(detail) > maxDetail {
		detail = strings.ToValidUTF8(detail[:maxDetail], "") + "…"
	}
	return &Error{Place: fmt.Sprintf(place, args...), Detail: detail}
}

// Limits bound a report that is read. Zero values mean MaxBytes and MaxBlocks.
type Limits struct {
	Bytes  int64
	Blocks int
}

const (
	maxPodName   = 253     // of a Kubernetes object
	maxNameBytes = 1024    // models and adapters; the request parser has the same
	maxAdapters  = 4096    // far beyond any engine's --max-cpu-loras
	maxBlockSize = 1 << 16 // tokens
	maxExact     = 1 << 53 // integers above lose digits in other JSON readers
	maxQueue     = math.MaxInt32
	saltHashLen  = 32
	hexDigits    = 16
)

// The wire forms. Pointers tell absent from zero.
type wireReport struct {
	Pod            string       `json:"pod"`
	Epoch          uint64       `json:"epoch"`
	Seq            uint64       `json:"seq"`
	Full           bool         `json:"full"`
	Model          string       `json:"model"`
	BlockSize      int          `json:"blockSize"`
	Chains         []wireChain  `json:"chains,omitempty"`
	Removed        fingerprints `json:"removed,omitzero"`
	Adapters       []string     `json:"adapters,omitempty"`
	QueueDepth     *int         `json:"queueDepth,omitempty"`
	GPUUtilization *float64     `json:"gpuUtilization,omitempty"`
	Health         *float64     `json:"health,omitempty"`
	TakenAt        time.Time    `json:"takenAt"`
}

type wireChain struct {
	Adapter  string       `json:"adapter"`
	SaltHash string       `json:"saltHash"`
	Parent   *string      `json:"parent"`
	Blocks   fingerprints `json:"blocks"`
}

// Encode writes r in its wire form.
func Encode(r *Report) ([]byte, error) {
	w := wireReport{
		Pod: r.Pod, Epoch: r.Epoch, Seq: r.Seq, Full: r.Full, Model: r.Model, BlockSize: r.BlockSize,
		Removed: fingerprints{ids: r.Removed}, Adapters: r.Adapters,
		QueueDepth: r.QueueDepth, GPUUtilization: r.GPUUtilization, Health: r.Health, TakenAt: r.TakenAt,
	}
	w.Chains = make([]wireChain, len(r.Chains))
	for i, c := range r.Chains {
		parent := ""
		if !c.Root {
			parent = string(appendHex(nil, c.Parent))
		}
		w.Chains[i] = wireChain{Adapter: c.Adapter, SaltHash: c.SaltHash, Parent: &parent, Blocks: fingerprints{ids: c.Blocks}}
	}
	body, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	return body, nil
}

// Decode reads one report and checks all of it, so that a receiver applies
// either the whole or nothing. Errors are [ErrTooLarge], an [*Error] with the
// place, or what the reader returned.
func Decode(from io.Reader, limits Limits) (*Report, error) {
	if limits.Bytes == 0 {
		limits.Bytes = MaxBytes
	}
	if limits.Blocks == 0 {
		limits.Blocks = MaxBlocks
	}
	body, err := io.ReadAll(io.LimitReader(from, limits.Bytes+1))
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if int64(len(body)) > limits.Bytes {
		return nil, fmt.Errorf("%w: over %d bytes", ErrTooLarge, limits.Bytes)
	}
	if !utf8.Valid(body) {
		return nil, bad("not valid UTF-8", "body")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	var w wireReport
	if err := dec.Decode(&w); err != nil {
		return nil, decodeError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, bad("more than one JSON value", "byte %d", dec.InputOffset())
	}
	return w.report(limits)
}

func decodeError(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return bad(fmt.Sprintf("want %s, have %s (before byte %d)", e.Type, e.Value, e.Offset), "%s", orBody(e.Field))
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return bad(e.Error(), "byte %d", e.Offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return bad("ends too early", "body")
	}
	return bad(err.Error(), "body") // an unknown field, a malformed time
}

func orBody(field string) string {
	if field == "" {
		return "body"
	}
	return field
}

// report checks w and converts it.
func (w *wireReport) report(limits Limits) (*Report, error) {
	if err := w.checkHead(); err != nil {
		return nil, err
	}
	r := &Report{
		Pod: w.Pod, Epoch: w.Epoch, Seq: w.Seq, Full: w.Full, Model: w.Model, BlockSize: w.BlockSize,
		Removed: w.Removed.ids, Adapters: w.Adapters, QueueDepth: w.QueueDepth,
		GPUUtilization: w.GPUUtilization, Health: w.Health, TakenAt: w.TakenAt,
	}
	if err := w.Removed.check("removed"); err != nil {
		return nil, err
	}
	for i := range w.Chains {
		c, err := w.Chains[i].chain(i)
		if err != nil {
			return nil, err
		}
		r.Chains = append(r.Chains, c)
	}
	if n := r.Blocks(); n > limits.Blocks {
		return nil, bad(fmt.Sprintf("%d blocks named, at most %d are allowed; send the rest in increments", n, limits.Blocks), "chains")
	}
	return r, nil
}

func (w *wireReport) checkHead() error {
	switch {
	case !name(w.Pod, maxPodName):
		return bad("want the pod's name, printable and at most 253 bytes", "pod")
	case w.Epoch >= maxExact:
		return bad("must be below 2^53", "epoch")
	case w.Seq == 0 || w.Seq >= maxExact:
		return bad("must count from 1 and stay below 2^53", "seq")
	case !name(w.Model, maxNameBytes):
		return bad("want the base model's name", "model")
	case w.BlockSize < 1 || w.BlockSize > maxBlockSize:
		return bad("want tokens per block, 1 to 65536", "blockSize")
	case w.TakenAt.IsZero():
		return bad("is missing", "takenAt")
	}
	return w.checkState()
}

func (w *wireReport) checkState() error {
	switch {
	case w.QueueDepth != nil && (*w.QueueDepth < 0 || *w.QueueDepth > maxQueue):
		return bad("must be a count; leave it out when unknown", "queueDepth")
	case w.GPUUtilization != nil && *w.GPUUtilization < 0:
		return bad("must not be negative; leave it out when unknown", "gpuUtilization")
	case w.Health != nil && (*w.Health < 0 || *w.Health > 1):
		return bad("must be from 0 to 1; leave it out when unknown", "health")
	case len(w.Adapters) > maxAdapters:
		return bad("more than 4096 adapters", "adapters")
	}
	for i, adapter := range w.Adapters {
		if !name(adapter, maxNameBytes) {
			return bad("want an adapter's name", "adapters[%d]", i)
		}
	}
	return nil
}

func (c *wireChain) chain(i int) (Chain, error) {
	out := Chain{Adapter: c.Adapter, SaltHash: c.SaltHash, Blocks: c.Blocks.ids}
	if c.Adapter != "" && !name(c.Adapter, maxNameBytes) {
		return out, bad("want an adapter's name or nothing", "chains[%d].adapter", i)
	}
	if c.SaltHash != "" && !lowerHex(c.SaltHash, saltHashLen) {
		return out, bad("want 32 lower-case hex digits or nothing", "chains[%d].saltHash", i)
	}
	switch {
	case c.Parent == nil:
		return out, bad(`is missing; "" is the root`, "chains[%d].parent", i)
	case *c.Parent == "":
		out.Root = true
	default:
		var ok bool
		if out.Parent, ok = parseHex([]byte(*c.Parent)); !ok {
			return out, bad(notHex([]byte(*c.Parent)), "chains[%d].parent", i)
		}
	}
	if err := c.Blocks.check(fmt.Sprintf("chains[%d].blocks", i)); err != nil {
		return out, err
	}
	if len(c.Blocks.ids) == 0 {
		return out, bad("is empty", "chains[%d].blocks", i)
	}
	return out, nil
}

// name: not empty, bounded, and without control characters.
func name(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for _, r := range s {
		if r < ' ' || (r >= 0x7f && r < 0xa0) {
			return false
		}
	}
	return true
}

func lowerHex(s string, length int) bool {
	if len(s) != length {
		return false
	}
	for _, c := range []byte(s) {
		if hexValue(c) > 15 {
			return false
		}
	}
	return true
}

// fingerprints is a list that is read and written in one go: full reports hold
// hundreds of thousands. The first bad element is kept, since only the caller
// knows which list of the report this is.
type fingerprints struct {
	ids    []uint64
	badAt  int
	detail string // "" when all are good
}

// IsZero leaves an empty list out.
func (f fingerprints) IsZero() bool { return len(f.ids) == 0 }

func (f *fingerprints) check(place string) error {
	if f.detail == "" {
		return nil
	}
	return bad(f.detail, "%s[%d]", place, f.badAt)
}

// MarshalJSON implements json.Marshaler.
func (f fingerprints) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, len(f.ids)*(hexDigits+3)+2)
	out = append(out, '[')
	for i, id := range f.ids {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = appendHex(out, id)
		out = append(out, '"')
	}
	return append(out, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler. The text is valid JSON.
func (f *fingerprints) UnmarshalJSON(text []byte) error {
	*f = fingerprints{}
	if string(text) == "null" {
		return nil
	}
	if text[0] != '[' {
		f.detail = "is not a list"
		return nil
	}
	f.ids = make([]uint64, 0, len(text)/(hexDigits+3)+1)
	for rest := next(text[1:]); rest[0] != ']'; rest = next(rest) {
		if len(rest) < hexDigits+2 || rest[0] != '"' || rest[hexDigits+1] != '"' {
			return f.stop(rest)
		}
		id, ok := parseHex(rest[1 : hexDigits+1])
		if !ok {
			return f.stop(rest)
		}
		f.ids = append(f.ids, id)
		rest = rest[hexDigits+2:]
	}
	return nil
}

// stop notes that the element at the start of rest is not a fingerprint.
func (f *fingerprints) stop(rest []byte) error {
	f.badAt = len(f.ids)
	text := rest[:min(len(rest), 24)]
	if end := bytes.IndexAny(text[1:], `",]`); end >= 0 {
		text = text[:end+1]
	}
	f.detail = notHex(bytes.TrimPrefix(text, []byte{'"'}))
	return nil
}

// next skips white space and commas.
func next(text []byte) []byte { return bytes.TrimLeft(text, " \t\r\n,") }

func notHex(text []byte) string {
	return strconv.Quote(string(text[:min(len(text), 24)])) + " is not 16 hex digits"
}

func appendHex(dst []byte, id uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[id>>shift&15])
	}
	return dst
}

func parseHex(text []byte) (id uint64, ok bool) {
	if len(text) != hexDigits {
		return 0, false
	}
	for _, c := range text {
		v := hexValue(c)
		if v > 15 {
			return 0, false
		}
		id = id<<4 | uint64(v)
	}
	return id, true
}

// hexValue is the value of a lower-case hex digit, or more than 15.
func hexValue(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}
