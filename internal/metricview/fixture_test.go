package metricview

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/cli"
)

// at is when pages without a start time were read.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const (
	openMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	protobuf    = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)

// raw is a captured page.
func raw(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "testdata", "metrics", name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// captured is a captured page, as read two minutes after its process began.
func captured(t testing.TB, name string) *Page {
	t.Helper()
	return parsed(t, raw(t, name+".txt"), "text/plain; version=0.0.4", name)
}

func parsed(t testing.TB, body []byte, contentType, source string) *Page {
	t.Helper()
	p, err := Parse(body, contentType)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	p.Source, p.At = source, now
	if start, ok := p.started(); ok {
		p.At = time.UnixMilli(int64(start * 1e3)).Add(2 * time.Minute).UTC()
	}
	return p
}

// text is a page that a test writes itself.
func text(t testing.TB, body string) *Page {
	t.Helper()
	return parsed(t, []byte(body), "text/plain", "http://10.0.0.1:9090/metrics")
}

func single(p *Page) Observation {
	return Observation{Replicas: []Replica{{After: p}}, Now: p.At}
}

func look(t testing.TB, o Observation) *Document {
	t.Helper()
	d, err := Look(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// written is what write prints in a format, on a terminal of some columns or, for
// 0, into a pipe.
func written(t *testing.T, format cli.Format, columns int, write func(cli.Printer) error) []byte {
	t.Helper()
	s, out, _ := cli.Test()
	s.OutIsTerminal, s.Width = columns > 0, columns
	if columns > 0 {
		s.Color = cli.ColorNever
	}
	if err := write(cli.Printer{Streams: s, Format: format}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func asJSON(t *testing.T, doc any) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := cli.WriteJSON(&b, doc); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// check is a document's check of a code.
func check(t *testing.T, d *Document, code string) Check {
	t.Helper()
	for _, c := range d.Checks {
		if c.Code == code {
			return c
		}
	}
	t.Fatalf("no check %s in %+v", code, d.Checks)
	return Check{}
}
