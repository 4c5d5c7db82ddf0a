package metricview

import (
	"fmt"
	"io"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// WriteProm writes the series that selectors pick, all for none, in Prometheus'
// text format: those of the page that was read last, unchanged. Of several
// replicas each series has its replica as the label "instance". An error is a
// [*NoSeriesError], or of the writer.
func WriteProm(out io.Writer, o Observation, selectors []Selector) error {
	if len(selectors) == 0 {
		selectors = []Selector{{Name: "*"}}
	}
	pages := make([]*Page, 0, len(o.Replicas))
	for _, r := range o.Replicas {
		pages = append(pages, r.After)
	}
	families := gather(pages, selectors)
	if len(families) == 0 && len(pages) > 0 {
		return &NoSeriesError{selectors[0].Name, near(pages[0], selectors[0].Name)}
	}
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(out, f); err != nil {
			return fmt.Errorf("write %s: %w", f.GetName(), err)
		}
	}
	return nil
}

// gather joins the pages' families, in the order of their names on the first page
// that has them.
func gather(pages []*Page, selectors []Selector) (families []*dto.MetricFamily) {
	places := map[string]int{}
	for _, p := range pages {
		for i := range p.Families {
			f := &p.Families[i]
			for j := range f.Series {
				if !wanted(f, &f.Series[j], selectors) {
					continue
				}
				place, there := places[f.Name]
				if !there {
					place = len(families)
					places[f.Name] = place
					families = append(families, &dto.MetricFamily{Name: &f.Name, Help: &f.Help, Type: f.Kind.proto()})
				}
				m := f.Series[j].proto(families[place].GetType())
				if len(pages) > 1 {
					m.Label = append([]*dto.LabelPair{{Name: new("instance"), Value: new(instance(p.Source))}}, m.Label...)
				}
				families[place].Metric = append(families[place].Metric, m)
			}
		}
	}
	return families
}

func wanted(f *Family, s *Series, selectors []Selector) bool {
	for i := range selectors {
		if selectors[i].takesName(f) && selectors[i].takes(s) {
			return true
		}
	}
	return false
}

func (k Kind) proto() *dto.MetricType {
	switch k {
	case Counter:
		return dto.MetricType_COUNTER.Enum()
	case Gauge:
		return dto.MetricType_GAUGE.Enum()
	case Histo:
		return dto.MetricType_HISTOGRAM.Enum()
	case Summary:
		return dto.MetricType_SUMMARY.Enum()
	case Untyped:
	}
	return dto.MetricType_UNTYPED.Enum()
}

func (s *Series) proto(t dto.MetricType) *dto.Metric {
	m := new(dto.Metric)
	for _, l := range s.Labels {
		m.Label = append(m.Label, &dto.LabelPair{Name: &l.Name, Value: &l.Value})
	}
	switch t {
	case dto.MetricType_COUNTER:
		m.Counter = &dto.Counter{Value: &s.Value}
	case dto.MetricType_GAUGE:
		m.Gauge = &dto.Gauge{Value: &s.Value}
	case dto.MetricType_SUMMARY:
		m.Summary = &dto.Summary{SampleCount: new(uint64(s.Count)), SampleSum: &s.Sum}
		for _, q := range s.Quantiles {
			m.Summary.Quantile = append(m.Summary.Quantile, &dto.Quantile{Quantile: &q.Q, Value: &q.Value})
		}
	case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
		m.Histogram = s.Histogram.proto()
	default:
		m.Untyped = &dto.Untyped{Value: &s.Value}
	}
	return m
}

func (h *Histogram) proto() *dto.Histogram {
	if h == nil || h.Broken != "" {
		return new(dto.Histogram)
	}
	out := &dto.Histogram{SampleCount: new(uint64(h.Count)), SampleSum: &h.Sum}
	for _, b := range h.Buckets {
		out.Bucket = append(out.Bucket, &dto.Bucket{UpperBound: &b.LE, CumulativeCount: new(uint64(b.Count))})
	}
	return out
}
