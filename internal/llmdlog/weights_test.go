package llmdlog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/llmdlog"
)

// weightsOf reads a log of runs with these values, without its start.
func weightsOf(s *script, opt llmdlog.Options, runs ...[][]float64) []*explain.Record {
	for i, values := range runs {
		sums := make([]float64, len(s.pods))
		for k, one := range s.plugins["default"].scorers {
			for p, v := range values[k] {
				sums[p] += float64(one.weight * v)
			}
		}
		s.run(fmt.Sprint("r", i), "default", values, slices.Index(sums, slices.Max(sums)))
	}
	_, records := parse(opt, s.lines)
	return records
}

func TestWeightsAreSolvedFromTotals(t *testing.T) {
	t.Parallel()
	apart := [][]float64{{0.2, 0.8, 0}, {0.7, 1, 0.1}}
	same := [][]float64{{1, 1, 1}, {1, 1, 1}}
	for name, tt := range map[string]struct {
		weights []float64
		start   bool
		given   map[string]float64
		runs    [][][]float64
		want    []float64
		from    string
		differ  bool
	}{
		"one run is enough":             {[]float64{0.35, 1.25}, false, nil, [][][]float64{apart}, []float64{0.35, 1.25}, "solved from 3 totals of 1 run,", false},
		"the share is open":             {[]float64{0.5, 1.5}, false, nil, [][][]float64{same, same}, []float64{1.5, 0.5}, "how cache, queue-scorer share their part is open", false},
		"nothing is told":               {[]float64{5, 6}, false, nil, [][][]float64{{{0, 0, 0}, {0, 0, 0}}}, []float64{3, 2}, "assumed to be the defaults, which give all 3 totals", false},
		"the configuration":             {[]float64{0.5, 1.5}, true, nil, [][][]float64{same}, []float64{0.5, 1.5}, "the configuration in the log", false},
		"decimals that are not printed": {[]float64{0.123456789, 2}, true, nil, [][][]float64{apart}, []float64{0.123456789, 2}, "the decimals that it lacks solved", false},
		"given":                         {[]float64{0.5, 1.5}, false, map[string]float64{"prefix-cache-scorer": 0.5, "queue-scorer": 1.5}, [][][]float64{same}, []float64{0.5, 1.5}, "given", false},
		"given, wrongly":                {[]float64{0.5, 1.5}, true, map[string]float64{"cache": 7}, [][][]float64{apart}, []float64{7, 1.5}, "given for 1 of 2 scorers, else the configuration in the log", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := simple(tt.weights...)
			if tt.start {
				s.start()
			}
			records := weightsOf(s, llmdlog.Options{Weights: tt.given}, tt.runs...)
			if len(records) != len(tt.runs) {
				t.Fatalf("%d records, want %d", len(records), len(tt.runs))
			}
			for _, rec := range records {
				w := rec.Weights.Custom
				if w[0].Weight != tt.want[0] || w[1].Weight != tt.want[1] || !strings.Contains(rec.Origin.WeightsFrom, tt.from) {
					t.Errorf("weights %v %q, want %v %q", w, rec.Origin.WeightsFrom, tt.want, tt.from)
				}
				if check, _, _ := explain.Replay(rec); check.Identical == tt.differ {
					t.Errorf("identical %v: %s", check.Identical, check.Difference)
				}
			}
		})
	}
}

func TestWeightsThatWereOpenAreSolvedLater(t *testing.T) {
	t.Parallel()
	var runs [][][]float64
	for range 70 { // more than wait
		runs = append(runs, [][]float64{{1, 1, 1}, {1, 1, 1}})
	}
	records := weightsOf(simple(0.25, 4), llmdlog.Options{}, append(runs, [][]float64{{0.5, 1, 1}, {0, 1, 1}})...)
	replays(t, records)
	if w := records[len(records)-1].Weights.Custom; len(records) != 71 || w[0].Weight != 0.25 || w[1].Weight != 4 {
		t.Errorf("%d records, weights %v", len(records), w)
	}
}
