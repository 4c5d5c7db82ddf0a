package metricview

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
)

// SeriesDocument is the JSON document of kind MetricSeries.
type SeriesDocument struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Time       time.Time `json:"time"`
	Failed     []Failure `json:"failed"`
	Window     Window    `json:"window"`
	Items      []Item    `json:"items"`
}

// Item is one series. Of several replicas counters and histograms are added up;
// what can't be is told of each, with the replica as the label "instance".
type Item struct {
	Name   string            `json:"name"`
	Type   Kind              `json:"type"`
	Labels map[string]string `json:"labels"`
	Help   string            `json:"help"`

	Value     *float64 `json:"value"`     // of a counter, gauge or untyped series
	PerSecond *float64 `json:"perSecond"` // of a counter
	// Distribution is that of a histogram, of what was observed in the window.
	Distribution *Distribution `json:"distribution,omitempty"`
	// Quantiles are a summary's own, by the quantile.
	Quantiles map[string]*float64 `json:"quantiles,omitempty"`
	Count     *float64            `json:"count,omitempty"`
	Sum       *float64            `json:"sum,omitempty"`

	labels []Label
}

// Selector picks series: a name or a glob of names, and labels that must be equal.
type Selector struct {
	Name   string
	Labels []Label
}

// ParseSelector reads NAME, GLOB or NAME{label="value",…}.
func ParseSelector(text string) (Selector, error) {
	name, rest, braced := strings.Cut(text, "{")
	s := Selector{Name: name}
	if name == "" {
		s.Name = "*"
	}
	if _, err := path.Match(s.Name, ""); err != nil {
		return s, fmt.Errorf("%q is no name and no glob: %w", text, err)
	}
	if !braced {
		return s, nil
	}
	inner, closed := strings.CutSuffix(rest, "}")
	if !closed {
		return s, fmt.Errorf("%q has no closing brace", text)
	}
	for inner = strings.TrimSpace(inner); inner != ""; {
		l, after, err := matcher(inner)
		if err != nil {
			return s, fmt.Errorf("%q: %w", text, err)
		}
		s.Labels = append(s.Labels, l)
		inner = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(after), ","))
	}
	return s, nil
}

var errMatcher = errors.New(`labels are written as label="value", with commas between them`)

// matcher reads label="value" from the beginning of a text.
func matcher(text string) (l Label, rest string, err error) {
	name, quoted, ok := strings.Cut(text, `="`)
	if !ok || strings.ContainsAny(name, `"{},=!~ `) || name == "" {
		return l, "", errMatcher
	}
	var value strings.Builder
	for i := 0; i < len(quoted); i++ {
		switch c := quoted[i]; {
		case c == '"':
			return Label{name, value.String()}, quoted[i+1:], nil
		case c == '\\' && i+1 < len(quoted):
			i++
			if quoted[i] == 'n' {
				value.WriteByte('\n')
			} else {
				value.WriteByte(quoted[i])
			}
		default:
			value.WriteByte(c)
		}
	}
	return l, "", errMatcher
}

// takesName reports whether a family is meant. The series of a histogram are meant
// by their own names too.
func (s *Selector) takesName(f *Family) bool {
	names := []string{f.Name}
	if f.Kind == Histo || f.Kind == Summary {
		names = append(names, f.Name+"_bucket", f.Name+"_sum", f.Name+"_count")
	}
	return slices.ContainsFunc(names, func(name string) bool {
		ok, err := path.Match(s.Name, name)
		return ok && err == nil
	})
}

func (s *Selector) takes(series *Series) bool {
	return !slices.ContainsFunc(s.Labels, func(l Label) bool { return series.Label(l.Name) != l.Value })
}

// NoSeriesError says that a selector picks nothing.
type NoSeriesError struct {
	Selector string
	Near     []string // names that look like it
}

// Error implements error.
func (e *NoSeriesError) Error() string { return "no series matches " + e.Selector }

// Select picks single series. An error is a [*NoSeriesError].
func Select(o Observation, selectors []Selector) (*SeriesDocument, error) {
	if len(o.Replicas) == 0 {
		return nil, errors.New("no page was read")
	}
	d := &Document{}
	f := newFacts(&o, Stranger)
	d.describe(&o, f)
	picker := &picker{facts: f, items: map[string]*Item{}, sums: map[string]*Histogram{}, rates: map[string]float64{}}
	for _, s := range selectors {
		before := len(picker.items)
		picker.pick(&s)
		if len(picker.items) == before && !picker.had {
			return nil, &NoSeriesError{s.Name, near(o.Replicas[0].After, s.Name)}
		}
	}
	return &SeriesDocument{
		APIVersion: explain.APIVersion, Kind: KindSeries, Time: o.Now.UTC(), Window: d.Window,
		Failed: append([]Failure{}, o.Failed...), Items: picker.list(),
	}, nil
}

// picker collects series by name and labels.
type picker struct {
	facts *facts
	items map[string]*Item
	sums  map[string]*Histogram
	rates map[string]float64
	had   bool // the present selector picked what was picked before
}

func (p *picker) pick(s *Selector) {
	p.had = false
	picked := map[string]bool{} // by this selector
	for i, r := range p.facts.replicas {
		for j := range r.After.Families {
			f := &r.After.Families[j]
			if !s.takesName(f) {
				continue
			}
			for k := range f.Series {
				if series := &f.Series[k]; s.takes(series) {
					p.add(i, f, series, picked)
				}
			}
		}
	}
}

func (p *picker) add(replica int, f *Family, s *Series, picked map[string]bool) {
	r := p.facts.replicas[replica]
	labels := s.Labels
	if len(p.facts.replicas) > 1 && f.Kind != Counter && f.Kind != Histo {
		labels = append([]Label{{"instance", instance(r.After.Source)}}, labels...)
	}
	like := Series{Labels: labels}
	key := f.Name + "\x00" + like.key()
	item := p.items[key]
	switch {
	case item == nil:
		item = &Item{Name: f.Name, Type: f.Kind, Labels: map[string]string{}, Help: f.Help, labels: labels}
		for _, l := range labels {
			item.Labels[l.Name] = l.Value
		}
		p.items[key] = item
	case !picked[key]:
		p.had = true
		return // an earlier selector has it
	}
	picked[key] = true
	p.fill(item, key, r, f, s, p.facts.spans[replica])
}

func (p *picker) fill(item *Item, key string, r Replica, f *Family, s *Series, span float64) {
	switch {
	case s.Histogram != nil:
		h := s.Histogram
		if r.Before != nil {
			if old := r.Before.series(f.Name, s); old != nil {
				h = h.Since(old.Histogram)
			}
		}
		p.sums[key] = h.Plus(p.sums[key])
		item.Distribution = distribution(p.sums[key])
	case f.Kind == Summary:
		item.Count, item.Sum, item.Quantiles = known(s.Count), known(s.Sum), map[string]*float64{}
		for _, q := range s.Quantiles {
			item.Quantiles[fmt.Sprint(q.Q)] = known(q.Value)
		}
	case f.Kind == Counter:
		total := s.Value
		if item.Value != nil {
			total += *item.Value
		}
		p.rates[key] += grown(s, r.Before, f.Name) / span
		item.Value, item.PerSecond = known(total), known(p.rates[key])
	default:
		item.Value = known(s.Value)
	}
}

func (p *picker) list() []Item {
	items := make([]Item, 0, len(p.items))
	for _, item := range p.items {
		items = append(items, *item)
	}
	slices.SortFunc(items, func(a, b Item) int { return cmp.Or(cmp.Compare(a.Name, b.Name), compareLabels(a.labels, b.labels)) })
	return items
}

// instance is the host of a page, or the page's name.
func instance(source string) string {
	if u, err := url.Parse(source); err == nil && u.Host != "" {
		return u.Host
	}
	return source
}

// maxNear is how many names a hint lists.
const maxNear = 5

// near are the names that share most words with what was asked for.
func near(p *Page, name string) []string {
	shared := map[string]int{}
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("_:*?[]", r) }) {
		if len(word) < 4 || word == "total" {
			continue
		}
		for _, f := range p.Families {
			if strings.Contains(f.Name, word) {
				shared[f.Name]++
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(shared), func(a, b string) int {
		return cmp.Or(cmp.Compare(shared[b], shared[a]), cmp.Compare(a, b))
	})
	return names[:min(len(names), maxNear)]
}

// Write writes the series as tables: values, then distributions.
func (d *SeriesDocument) Write(p cli.Printer) error {
	values := p.Table(
		cli.Column{Name: "NAME", Min: 16}, cli.Column{Name: "LABELS", Min: 12}, cli.Column{Name: "VALUE", Right: true},
		cli.Column{Name: "RATE/S", Right: true, Priority: 1}, cli.Column{Name: "TYPE", Wide: true}, cli.Column{Name: "HELP", Wide: true},
	)
	distributions := p.Table(
		cli.Column{Name: "NAME", Min: 16}, cli.Column{Name: "LABELS", Min: 12}, cli.Column{Name: "COUNT", Right: true},
		cli.Column{Name: "P50", Right: true}, cli.Column{Name: "P90", Right: true}, cli.Column{Name: "P99", Right: true},
		cli.Column{Name: "MEAN", Right: true, Priority: 1}, cli.Column{Name: "P10", Right: true, Wide: true}, cli.Column{Name: "HELP", Wide: true},
	)
	for _, item := range d.Items {
		labels := labelText(item.labels)
		switch {
		case item.Distribution != nil:
			h := item.Distribution
			distributions.Row(item.Name, labels, Number(h.Count), h.quantile("p50", h.P50), h.quantile("p90", h.P90), h.quantile("p99", h.P99), or(h.Mean, Number), h.quantile("p10", h.P10), item.Help)
		case item.Quantiles != nil:
			mean := known(math.NaN())
			if item.Count != nil && item.Sum != nil {
				mean = known(*item.Sum / *item.Count)
			}
			distributions.Row(item.Name, labels, or(item.Count, Number), or(item.Quantiles["0.5"], Number), or(item.Quantiles["0.9"], Number), or(item.Quantiles["0.99"], Number), or(mean, Number), or(item.Quantiles["0.1"], Number), item.Help)
		default:
			rate := "-"
			if item.Type == Counter {
				rate = or(item.PerSecond, Number)
			}
			values.Row(item.Name, labels, or(item.Value, Number), rate, string(item.Type), item.Help)
		}
	}
	if values.Len() > 0 {
		if err := values.Flush(); err != nil {
			return err
		}
	}
	if distributions.Len() == 0 {
		return nil
	}
	if values.Len() > 0 {
		if _, err := fmt.Fprintln(p.Streams.Out); err != nil {
			return err
		}
	}
	return distributions.Flush()
}

// labelText writes labels as PromQL does; "-" for none.
func labelText(labels []Label) string {
	if len(labels) == 0 {
		return "-"
	}
	var parts []string
	for _, l := range labels {
		parts = append(parts, l.Name+"="+quoted(l.Value))
	}
	return strings.Join(parts, ",")
}

// quoted is a label's value as the text format writes it.
func quoted(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(v) + `"`
}
