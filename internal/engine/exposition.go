package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// errHTML is a page for people: a proxy's error page, a login form.
var errHTML = errors.New("page is HTML, not metrics")

// format is how a page is written.
type format int

const (
	formatText format = iota
	formatProto
)

// formatOf reads a Content-Type.
func formatOf(contentType string) (format, error) {
	if contentType == "" {
		return formatText, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return 0, fmt.Errorf("content type %.80q is malformed", contentType)
	}
	switch media {
	case "text/plain", "application/openmetrics-text":
		return formatText, nil
	case "application/vnd.google.protobuf":
		if params["encoding"] != "delimited" || params["proto"] != "io.prometheus.client.MetricFamily" {
			return 0, errors.New("protobuf page is not of delimited metric families")
		}
		return formatProto, nil
	case "text/html", "application/xhtml+xml":
		return 0, errHTML
	}
	return 0, fmt.Errorf("content type %.80q is not a metrics page", media)
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

// decodeLines reads lines of wanted families, also those that are not plain.
func (s *scratch) decodeLines(lines []byte) (families, error) {
	f, err := s.decode(lines)
	if !errors.Is(err, errOdd) {
		return f, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(bytes.NewReader(lines))
	if err != nil {
		// The parser counts the lines that were kept, so its line number would
		// mislead.
		if p, ok := errors.AsType[expfmt.ParseError](err); ok {
			err = errors.New(p.Msg)
		}
		return nil, malformed(err)
	}
	s.reset()
	for _, f := range found {
		s.take(f)
	}
	return s.families, nil
}

func malformed(err error) error { return fmt.Errorf("page is malformed: %w", err) }

// decodeProto decodes a page of delimited messages. The frames are checked
// first: the decoder allocates what a frame's header claims.
func (s *scratch) decodeProto(body io.Reader, limits Limits) (families, error) {
	page, err := io.ReadAll(bounded(body, min(limits.pageBytes(), maxProtoBytes)))
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	for rest := page; len(rest) > 0; {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, malformed(errors.New("a protobuf frame is cut"))
		}
		rest = rest[n+int(size):]
	}
	s.reset()
	dec := expfmt.NewDecoder(bytes.NewReader(page), expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		f := new(dto.MetricFamily)
		switch err := dec.Decode(f); {
		case errors.Is(err, io.EOF):
			return s.families, nil
		case err != nil:
			return nil, malformed(err)
		}
		s.take(f)
	}
}

// take adds what prometheus/common has read of a family, if it is wanted.
func (d *decoder) take(f *dto.MetricFamily) {
	i := wanted.number(f.GetName())
	if i < 0 {
		return
	}
	for _, m := range f.GetMetric() {
		var s sample
		switch {
		case m.Gauge != nil:
			s.value = m.Gauge.GetValue()
		case m.Untyped != nil:
			s.value = m.Untyped.GetValue()
		case m.Counter != nil:
			s.value = m.Counter.GetValue()
		default:
			continue // a histogram has no value of its own
		}
		for _, l := range m.GetLabel() {
			s.labels = append(s.labels, label{[]byte(l.GetName()), []byte(l.GetValue())})
		}
		d.families[i] = append(d.families[i], s)
	}
}
