package metricview

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Accept asks for the format that is read best, and takes the others.
const Accept = "text/plain;version=0.0.4;q=1," +
	"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.5," +
	"application/openmetrics-text;version=1.0.0;q=0.4,*/*;q=0.1"

// The bounds of a page. A picker of 2,000 pods has 4 MB, an engine 0.1 MB, a stock
// llm-d picker 0.4 MB.
const (
	maxBody   = 16 << 20
	maxSeries = 150_000
	maxLabels = 900_000 // of all series
	// maxProtoBytes is less: what is decoded is a hundred times as large.
	maxProtoBytes = 2 << 20
)

// MaxBody is the longest page that is read, in bytes.
const MaxBody = maxBody

// ErrHTML is a page for people: a proxy's error page, a login form, a dashboard.
var ErrHTML = errors.New("the page is HTML, not metrics")

// ContentTypeError is a page that is not one of metrics.
type ContentTypeError struct{ Type string }

// Error implements error.
func (e *ContentTypeError) Error() string {
	return fmt.Sprintf("the page is %.80q, not metrics", e.Type)
}

// LimitError is a page that is too large.
type LimitError struct {
	What  string
	Limit int
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the page has more than %d %s", e.Limit, e.What)
}

// format is how a page is written.
type format struct{ name string }

func formatOf(contentType string) (format, error) {
	if contentType == "" {
		return format{"text"}, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return format{}, &ContentTypeError{contentType}
	}
	switch media {
	case "text/plain":
		return format{"text"}, nil
	case "application/openmetrics-text":
		return format{"openmetrics"}, nil
	case "application/vnd.google.protobuf":
		if params["encoding"] == "delimited" && params["proto"] == "io.prometheus.client.MetricFamily" {
			return format{"protobuf"}, nil
		}
	case "text/html", "application/xhtml+xml":
		return format{}, ErrHTML
	}
	return format{}, &ContentTypeError{media}
}

// bound refuses what would take too much memory, before it is decoded.
func (f format) bound(body []byte) error {
	if len(body) > maxBody {
		return &LimitError{"bytes", maxBody}
	}
	if f.name == "protobuf" {
		return boundFrames(body)
	}
	if looksLikeHTML(body) {
		return ErrHTML
	}
	if bytes.Count(body, []byte(`="`)) > maxLabels {
		return &LimitError{"labels", maxLabels}
	}
	series := 0
	for line := range bytes.Lines(body) {
		if len(line) > 1 && line[0] != '#' {
			series++
		}
	}
	if series > maxSeries {
		return &LimitError{"series", maxSeries}
	}
	return nil
}

// looksLikeHTML knows pages that are sent as plain text.
func looksLikeHTML(body []byte) bool {
	start := strings.ToLower(string(bytes.TrimSpace(body[:min(len(body), 64)])))
	return strings.HasPrefix(start, "<!doctype html") || strings.HasPrefix(start, "<html")
}

// boundFrames checks the frames: the decoder allocates what a header claims.
func boundFrames(body []byte) error {
	if len(body) > maxProtoBytes {
		return &LimitError{"bytes of protobuf", maxProtoBytes}
	}
	for rest := body; len(rest) > 0; {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return malformed(errors.New("a protobuf frame is cut"))
		}
		rest = rest[n+int(size):]
	}
	return nil
}

// decode reads all families.
func (f format) decode(body []byte) ([]*dto.MetricFamily, error) {
	switch f.name {
	case "protobuf":
		return decodeFrames(body)
	case "openmetrics":
		classic, err := classicText(body)
		if err != nil {
			return nil, err
		}
		body = classic
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return nil, malformed(err)
	}
	return slices.Collect(maps.Values(found)), nil
}

func decodeFrames(body []byte) (families []*dto.MetricFamily, err error) {
	decoder := expfmt.NewDecoder(bytes.NewReader(body), expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		family := new(dto.MetricFamily)
		err := decoder.Decode(family)
		if errors.Is(err, io.EOF) {
			return families, nil
		}
		if err != nil {
			return nil, malformed(err)
		}
		families = append(families, family)
	}
}

func malformed(err error) error {
	if p, ok := errors.AsType[expfmt.ParseError](err); ok {
		err = errors.New(p.Msg) // its line may be another than the page's
	}
	return fmt.Errorf("the page is malformed: %w", err)
}
