package metricview

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/eppctl/eppctl/internal/engine"
)

// Page is what one scrape of one replica said.
type Page struct {
	Source string    // where it came from, a URL or a file's name
	At     time.Time // when it was read; zero = not known
	Format string    // "text", "openmetrics" or "protobuf"

	Families []Family // by name
	// Repeated counts series that stood on the page more than once; the first counts.
	Repeated int
	// Engine is what the page says as an engine's; its Engine is "" when it is none.
	Engine engine.Page
}

// Kind is a family's type.
type Kind string

// The types of families.
const (
	Counter Kind = "counter"
	Gauge   Kind = "gauge"
	Histo   Kind = "histogram"
	Summary Kind = "summary"
	Untyped Kind = "untyped"
)

// Family is all series of a name.
type Family struct {
	Name, Help string
	Kind       Kind
	Series     []Series // by labels
}

// Series is one line of a family, or the lines of one histogram.
type Series struct {
	Labels []Label // by name
	Value  float64 // of a counter, gauge or untyped series; may be NaN
	// Histogram is set for histograms, Quantiles and the two beside it for summaries.
	Histogram  *Histogram
	Quantiles  []Quantile
	Count, Sum float64
}

// Label is a name and a value.
type Label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Quantile is one of a summary, which the server computed.
type Quantile struct{ Q, Value float64 }

// Label is the value of a label, "" when the series has none of that name.
func (s *Series) Label(name string) string {
	for _, l := range s.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// key tells series of a family apart.
func (s *Series) key() string {
	var b strings.Builder
	for _, l := range s.Labels {
		b.WriteString(l.Name)
		b.WriteByte(0)
		b.WriteString(l.Value)
		b.WriteByte(0)
	}
	return b.String()
}

// Family is the family of a name, nil when the page has none.
func (p *Page) Family(name string) *Family {
	i, ok := slices.BinarySearchFunc(p.Families, name, func(f Family, name string) int { return cmp.Compare(f.Name, name) })
	if !ok {
		return nil
	}
	return &p.Families[i]
}

// value is the value of a family's only series.
func (p *Page) value(name string) (float64, bool) {
	f := p.Family(name)
	if f == nil || len(f.Series) == 0 || f.Series[0].Histogram != nil {
		return 0, false
	}
	v := f.Series[0].Value
	return v, finite(v)
}

// started is when the process began, in seconds of Unix time.
func (p *Page) started() (float64, bool) { return p.value(startName) }

// Parse reads a page of the given Content-Type: text, OpenMetrics or delimited
// protobuf. Errors are fit for a person: [ErrHTML], a [*ContentTypeError], a
// [*LimitError], or what is malformed.
func Parse(body []byte, contentType string) (*Page, error) { return parse(body, contentType, false) }

func parse(body []byte, contentType string, excerpt bool) (*Page, error) {
	format, err := formatOf(contentType)
	if err != nil {
		return nil, err
	}
	if err := format.bound(body); err != nil {
		return nil, err
	}
	wanted := body
	if excerpt && format.name != "protobuf" {
		wanted = excerptLines(body)
	}
	decoded, err := format.decode(wanted)
	if err != nil {
		return nil, err
	}
	if excerpt {
		decoded = excerptFamilies(decoded)
	}
	p := &Page{Format: format.name}
	places := make(map[string]int, len(decoded))
	for _, f := range decoded {
		p.add(f, places)
	}
	slices.SortFunc(p.Families, func(a, b Family) int { return cmp.Compare(a.Name, b.Name) })
	for i := range p.Families {
		p.Repeated += p.Families[i].sort()
	}
	// A page that is no engine's says so by an empty name.
	p.Engine, _ = engine.ParsePage(bytes.NewReader(body), contentType, engine.Limits{PageBytes: maxBody})
	return p, nil
}

// add takes a family, or more series of one that has a place already.
func (p *Page) add(from *dto.MetricFamily, places map[string]int) {
	f := Family{Name: from.GetName(), Help: from.GetHelp(), Kind: kindOf(from.GetType())}
	for _, m := range from.GetMetric() {
		f.Series = append(f.Series, seriesOf(m))
	}
	if i, there := places[f.Name]; there {
		p.Families[i].Series = append(p.Families[i].Series, f.Series...)
		return
	}
	places[f.Name] = len(p.Families)
	p.Families = append(p.Families, f)
}

// sort orders the series by their labels and drops the repeated ones.
func (f *Family) sort() (repeated int) {
	keys := make(map[string]bool, len(f.Series))
	kept := f.Series[:0]
	for _, s := range f.Series {
		if k := s.key(); !keys[k] {
			keys[k] = true
			kept = append(kept, s)
		}
	}
	repeated = len(f.Series) - len(kept)
	f.Series = kept
	slices.SortFunc(f.Series, func(a, b Series) int { return compareLabels(a.Labels, b.Labels) })
	return repeated
}

func compareLabels(a, b []Label) int {
	return slices.CompareFunc(a, b, func(x, y Label) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Value, y.Value))
	})
}

func kindOf(t dto.MetricType) Kind {
	switch t {
	case dto.MetricType_COUNTER:
		return Counter
	case dto.MetricType_GAUGE:
		return Gauge
	case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
		return Histo
	case dto.MetricType_SUMMARY:
		return Summary
	case dto.MetricType_UNTYPED:
	}
	return Untyped
}

func seriesOf(m *dto.Metric) Series {
	var s Series
	for _, l := range m.GetLabel() {
		s.Labels = append(s.Labels, Label{l.GetName(), l.GetValue()})
	}
	slices.SortFunc(s.Labels, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	switch {
	case m.Histogram != nil:
		s.Histogram = histogramOf(m.Histogram)
	case m.Summary != nil:
		s.Count, s.Sum = float64(m.Summary.GetSampleCount()), m.Summary.GetSampleSum()
		for _, q := range m.Summary.GetQuantile() {
			s.Quantiles = append(s.Quantiles, Quantile{q.GetQuantile(), q.GetValue()})
		}
	case m.Gauge != nil:
		s.Value = m.Gauge.GetValue()
	case m.Counter != nil:
		s.Value = m.Counter.GetValue()
	default:
		s.Value = m.GetUntyped().GetValue()
	}
	return s
}
