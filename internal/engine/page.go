package engine

import (
	"bytes"
	"fmt"
	"io"
	"math"
)

// Value is one number of a page, or the reason why it is not known.
type Value struct {
	// V is the number; 0 and without meaning unless Known.
	V     float64
	Known bool
	// Series is the name of the metric that V was read from, or that the page
	// has but with a value of no use. Empty when the page has none.
	Series string
	// Reason says why the value is unknown, or what a known value rests on when
	// that is not a series ("no LoRA").
	Reason string
}

func unknown(series, reason string) Value { return Value{Series: series, Reason: reason} }

// known is v, unless no queue and no share can have that value.
func known(series string, v float64) Value {
	switch {
	case math.IsNaN(v):
		return unknown(series, series+" is NaN")
	case math.IsInf(v, 0):
		return unknown(series, series+" is infinite")
	case v < 0:
		return unknown(series, fmt.Sprintf("%s is negative (%v)", series, v))
	}
	return Value{V: v, Known: true, Series: series}
}

// Page is what one /metrics page says of a pod.
type Page struct {
	// Engine is "vllm", "sglang" or "trtllm", and "" when the page has no series
	// of any of them.
	Engine string

	// Waiting and Running are numbers of requests, summed over the ranks of a
	// data parallel engine.
	Waiting, Running Value
	// KVUsage is the used share of the KV cache, 0..1 but not clamped: the
	// largest of the ranks, since the fullest rank is the first that evicts.
	KVUsage Value

	// BlockSize (tokens a block) and NumBlocks (of the whole pod) are 0 when
	// the page does not say them.
	BlockSize, NumBlocks int

	// Adapters are the LoRA adapters that run or wait, sorted, each once.
	Adapters []string
	// AdaptersState tells whether Adapters is known; its V is their number. A
	// vLLM page without the family is known to have none ("no LoRA").
	AdaptersState Value
	// MaxAdapters is how many adapters fit at once; 0 when not said.
	MaxAdapters int

	// Ranks are the rows of a data parallel engine, in the order of their
	// numbers; empty when the page's series carry no rank.
	Ranks []Rank

	// Started is when the process started, in seconds of Unix time, and Prompts how
	// many prompt tokens it has computed since: a restart changes the first and lets
	// the second fall. Without a reason when they are unknown.
	Started, Prompts Value
}

// Rank is what a page says of one data parallel rank, one engine core with a
// queue and a KV cache of its own.
type Rank struct {
	// Name is the label's value: "0", "1".
	Name                      string
	Waiting, Running, KVUsage Value
}

// unknownPage is a page of which nothing is known, for one reason.
func unknownPage(reason string) Page {
	v := unknown("", reason)
	return Page{Waiting: v, Running: v, KVUsage: v, AdaptersState: v}
}

// Limits bound what [ParsePage] reads; a zero field is its default.
type Limits struct {
	// PageBytes is the longest page that is read to its end (default 4 MiB:
	// pages of vLLM 0.32 are 48 to 85 KB, and adapters add a series for each
	// combination that ever ran).
	PageBytes int64
}

// Defaults and bounds of [ParsePage].
const (
	defaultPageBytes = 4 << 20
	// maxLineBytes bounds one line that matters; the longest seen has 1.1 KB.
	maxLineBytes = 64 << 10
	// maxKeptBytes bounds what a [Reader] remembers of a page: pages of vLLM 0.32
	// have 2 to 4 KB of lines that matter.
	maxKeptBytes = 32 << 10
	// maxProtoBytes bounds a protobuf page, which nobody asked for (the request
	// accepts text only) and which grows a hundredfold when decoded.
	maxProtoBytes = 512 << 10
	// maxRanks and maxAdapters are far above any real engine.
	maxRanks    = 1024
	maxAdapters = 4096
)

func (l Limits) pageBytes() int64 {
	if l.PageBytes <= 0 {
		return defaultPageBytes
	}
	return l.PageBytes
}

// Reader reads the pages of one server, one after the other. What has not
// changed on a page since the last one is not decoded again.
//
// Text is read in the classic and in OpenMetrics' syntax (the gauges read here
// look the same in both), protobuf in its delimited form. Lines of families that
// are not read may be malformed: they are skipped unseen.
//
// The zero Reader finds the engine by its page and has the default limits. It
// must not be used by two goroutines at once.
type Reader struct {
	Limits Limits
	// Engine is the one whose names are read; "" is the first that the page has.
	Engine string

	contentType string
	format      format
	// page is what the lines in kept say; none when kept is nil.
	kept []byte
	page Page
}

// Read reads one /metrics page of the given Content-Type.
//
// On an error the page's values are all unknown, with the error as reason, so
// that a caller may use the page in either case. Pages share what they point to
// and must not be changed.
func (r *Reader) Read(body io.Reader, contentType string) (Page, error) {
	p, err := r.read(body, contentType)
	if err != nil {
		return unknownPage(err.Error()), err
	}
	return p, nil
}

// ParsePage reads a page that comes alone; see [Reader.Read].
func ParsePage(body io.Reader, contentType string, limits Limits) (Page, error) {
	return (&Reader{Limits: limits}).Read(body, contentType)
}

func (r *Reader) read(body io.Reader, contentType string) (Page, error) {
	if contentType != r.contentType {
		format, err := formatOf(contentType)
		if err != nil {
			return Page{}, err
		}
		r.contentType, r.format = contentType, format
	}
	s := scratchPool.Get().(*scratch)
	defer s.release()
	if r.format == formatProto {
		f, err := s.decodeProto(body, r.Limits)
		if err != nil {
			return Page{}, err
		}
		return pageOf(f, r.Engine)
	}
	if err := s.scan(body, r.Limits); err != nil {
		return Page{}, err
	}
	if r.kept != nil && bytes.Equal(s.kept, r.kept) {
		return r.page, nil
	}
	return r.decode(s)
}

// decode reads the kept lines, and keeps them in turn.
func (r *Reader) decode(s *scratch) (Page, error) {
	f, err := s.decodeLines(s.kept)
	if err != nil {
		return Page{}, err
	}
	p, err := pageOf(f, r.Engine)
	if err == nil && len(s.kept) <= maxKeptBytes {
		r.kept, r.page = append(r.kept[:0], s.kept...), p
	}
	return p, err
}

// pageOf is what the families of a page say.
func pageOf(f families, engine string) (Page, error) {
	d, ok := dialectOf(f, engine)
	if !ok {
		return unknownPage(noSeries(engine)), nil
	}
	waiting := readGauge(f, d, d.waiting)
	running := readGauge(f, d, d.running)
	usage := readGauge(f, d, d.usage)
	ranks := rankNames(waiting, running, usage)
	if len(ranks) > maxRanks {
		return Page{}, fmt.Errorf("page has more than %d ranks", maxRanks)
	}
	p := Page{
		Engine:  d.engine,
		Waiting: waiting.total(ranks, sum),
		Running: running.total(ranks, sum),
		KVUsage: usage.total(ranks, math.Max),
	}
	for _, name := range ranks {
		p.Ranks = append(p.Ranks, Rank{
			Name: name, Waiting: waiting.rank(name), Running: running.rank(name), KVUsage: usage.rank(name),
		})
	}
	p.BlockSize, p.NumBlocks = d.blocks.read(f)
	p.Started = fold(f, processStart, math.Max)
	p.Prompts = fold(f, d.prompts, sum)
	readAdapters(f, d, &p)
	return p, nil
}

func noSeries(engine string) string {
	if engine == "" {
		return "page has no series of vLLM, SGLang or trtllm-serve"
	}
	return "page has no series of " + engine + ", which the endpoint is said to be"
}

// fold makes one of all series of a family, when each has a usable value.
func fold(f families, name string, of func(a, b float64) float64) (v Value) {
	for _, s := range f.of(name) {
		next := known(name, s.value)
		if !next.Known {
			return Value{}
		}
		next.V = of(v.V, next.V)
		v = next
	}
	return v
}

func sum(a, b float64) float64 { return a + b }
