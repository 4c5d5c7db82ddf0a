package engine

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"sync"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// errHTML is a page for people: a proxy's error page, a login form.
var errHTML = errors.New("page is HTML, not metrics")

// readFamilies decodes the wanted families of a page.
func readFamilies(body io.Reader, contentType string, limits Limits) (familySet, error) {
	media, params := "text/plain", map[string]string(nil)
	if contentType != "" {
		var err error
		if media, params, err = mime.ParseMediaType(contentType); err != nil {
			return nil, fmt.Errorf("content type %.80q is malformed", contentType)
		}
	}
	switch media {
	case "text/plain", "application/openmetrics-text":
		return readText(bounded(body, limits.pageBytes()))
	case "application/vnd.google.protobuf":
		if params["encoding"] != "delimited" || params["proto"] != "io.prometheus.client.MetricFamily" {
			return nil, errors.New("protobuf page is not of delimited metric families")
		}
		return readProto(bounded(body, min(limits.pageBytes(), maxProtoBytes)))
	case "text/html", "application/xhtml+xml":
		return nil, errHTML
	}
	return nil, fmt.Errorf("content type %.80q is not a metrics page", media)
}

// boundedReader fails, unlike an [io.LimitedReader], when there is more than
// its limit: a cut page would otherwise look like one that says less.
type boundedReader struct {
	r           io.Reader
	left, limit int64
}

func bounded(r io.Reader, limit int64) *boundedReader {
	return &boundedReader{r: r, left: limit, limit: limit}
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if int64(n) > b.left {
		n = int(b.left)
		err = tooLong(b.limit)
	}
	b.left -= int64(n)
	return n, err
}

func tooLong(limit int64) error { return fmt.Errorf("longer than %d bytes", limit) }

// scratch is what reading a page needs and the next one can use again.
type scratch struct {
	in     *bufio.Reader
	kept   bytes.Buffer
	parser expfmt.TextParser
}

// scratchPool is shared by all watchers of the process.
var scratchPool = sync.Pool{New: func() any {
	return &scratch{in: bufio.NewReaderSize(nil, maxLineBytes), parser: expfmt.NewTextParser(model.UTF8Validation)}
}}

// maxScratchBytes is the largest buffer that is worth keeping for the next page.
const maxScratchBytes = 256 << 10

func (s *scratch) release() {
	s.in.Reset(nil)
	if s.kept.Cap() <= maxScratchBytes {
		s.kept.Reset()
		scratchPool.Put(s)
	}
}

// readText hands the lines of wanted families to the parser and skips the
// rest: of a real page's 600 to 1000 lines about ten matter, and parsing all of
// them costs 10 to 20 times as much (BenchmarkParsePage).
func readText(body io.Reader) (familySet, error) {
	s := scratchPool.Get().(*scratch)
	defer s.release()
	s.in.Reset(body)
	if err := s.keepWanted(); err != nil {
		return nil, err
	}
	families, err := s.parser.TextToMetricFamilies(&s.kept)
	if err != nil {
		// The parser counts the lines that were kept, so its line number would
		// mislead.
		if p, ok := errors.AsType[expfmt.ParseError](err); ok {
			err = errors.New(p.Msg)
		}
		return nil, fmt.Errorf("page is malformed: %w", err)
	}
	return families, nil
}

func (s *scratch) keepWanted() error {
	blank := true
	for {
		line, err := s.in.ReadSlice('\n')
		if blank {
			text := bytes.TrimSpace(line)
			if len(text) > 0 && text[0] == '<' {
				return errHTML
			}
			blank = len(text) == 0
		}
		keep := wantedLine(line)
		if keep {
			s.kept.Write(line)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("read page: %w", err)
		case keep:
			return fmt.Errorf("page has a line of more than %d bytes", maxLineBytes)
		default:
			if err := s.skipLine(); err != nil {
				return err
			}
		}
	}
}

// skipLine drops what is left of a long line.
func (s *scratch) skipLine() error {
	for {
		_, err := s.in.ReadSlice('\n')
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("read page: %w", err)
		}
	}
}

// wantedLine reports whether a line is a sample or the TYPE of a wanted family.
// In doubt it says yes: quoted names are left to the parser.
func wantedLine(line []byte) bool {
	line = skipBlank(line)
	if len(line) == 0 {
		return false
	}
	switch line[0] {
	case 'v', 's', 't':
		return wantedName(line)
	case '{', '"':
		return true
	case '#':
		rest, ok := bytes.CutPrefix(skipBlank(line[1:]), []byte("TYPE"))
		return ok && wantedName(skipBlank(rest))
	}
	return false
}

func wantedName(s []byte) bool {
	n := 0
	for n < len(s) && isNameByte(s[n]) {
		n++
	}
	if n < len(s) && s[n] == '"' {
		return true
	}
	return wanted[string(s[:n])]
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == ':'
}

func skipBlank(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	return s
}

// readProto decodes a page of delimited messages. The frames are checked first:
// the decoder allocates what a frame's header claims.
func readProto(body io.Reader) (familySet, error) {
	page, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	for rest := page; len(rest) > 0; {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, errors.New("page is malformed: a protobuf frame is cut")
		}
		rest = rest[n+int(size):]
	}
	families := familySet{}
	dec := expfmt.NewDecoder(bytes.NewReader(page), expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		f := new(dto.MetricFamily)
		err := dec.Decode(f)
		switch {
		case errors.Is(err, io.EOF):
			return families, nil
		case err != nil:
			return nil, fmt.Errorf("page is malformed: %w", err)
		case wanted[f.GetName()] && len(f.GetMetric()) > 0:
			families[f.GetName()] = f
		}
	}
}
