package metricview

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var posInf = (&Histogram{Buckets: []Bucket{{1, 1}}, Count: 1}).bounded()

// bounded is +Inf, by way of what normalise adds.
func (h *Histogram) bounded() float64 {
	h.normalise()
	return h.Buckets[len(h.Buckets)-1].LE
}

// histogramText is a histogram of one value, seen n times, in a bucket of its own.
func histogramText(name string, v float64, n int) string {
	return fmt.Sprintf("# TYPE %[1]s histogram\n%[1]s_bucket{le=\"%[2]v\"} 0\n%[1]s_bucket{le=\"%[3]v\"} %[4]d\n%[1]s_bucket{le=\"+Inf\"} %[4]d\n%[1]s_sum 1\n%[1]s_count %[4]d\n",
		name, v-1e-9, v, n)
}

func TestThresholds(t *testing.T) {
	stale := func(n int) string {
		return fmt.Sprintf("# TYPE epp_routing_decisions_total counter\nepp_routing_decisions_total{model=\"a\"} 1000\n# TYPE epp_stale_cache_routing_total counter\nepp_stale_cache_routing_total %d\n", n)
	}
	queue := func(n int) string { return fmt.Sprintf("epp_max_queue 20\nepp_queue_depth{pod=\"a\"} %d\n", n) }
	health := func(v float64) string { return fmt.Sprintf("epp_pod_health_score{pod=\"a\"} %v\n", v) }
	pods := func(n, of int) string { return fmt.Sprintf("epp_candidate_pods %d\nepp_pool_pods %d\n", n, of) }
	for _, tc := range []struct {
		name, page, code string
		want             Status
	}{
		{"p50 of .41", histogramText("epp_cache_match_ratio", .41, 9), "cache-match", OK},
		{"p50 of .39, for 2 minutes", histogramText("epp_cache_match_ratio", .39, 9), "cache-match", Warn},
		{"no match seen", histogramText("epp_cache_match_ratio", .39, 0), "cache-match", Unknown},
		{"16 of 20 wait", queue(16), "queue", OK},
		{"17 of 20 wait, seen once", queue(17), "queue", Warn},
		{"a queue without maxQueue", "epp_queue_depth{pod=\"a\"} 3\n", "queue", Unknown},
		{"3 % stale", stale(30), "stale", OK},
		{"5 % stale", stale(50), "stale", Warn},
		{"5.1 % stale", stale(51), "stale", Alert},
		{"1 ms", histogramText("epp_scoring_latency_us", 1000, 9), "scoring-latency", OK},
		{"5 ms", histogramText("epp_scoring_latency_us", 5000, 9), "scoring-latency", Warn},
		{"5.001 ms", histogramText("epp_scoring_latency_us", 5001, 9), "scoring-latency", Alert},
		{"healthy", health(.95), "health", OK},
		{"a little degraded", health(.7), "health", OK},
		{"degraded", health(.69), "health", Warn},
		{"still gets requests", health(.3), "health", Warn},
		{"out", health(.29), "health", Alert},
		{"health not known", "epp_pool_pods 3\n", "health", Unknown},
		{"all are candidates", pods(4, 4), "candidates", OK},
		{"one is none", pods(3, 4), "candidates", Warn},
		{"no candidate", pods(0, 4), "candidates", Alert},
		{"low scores", histogramText("epp_composite_score", .3, 50), "composite-score", Warn},
		{"high scores", histogramText("epp_composite_score", .8, 50), "composite-score", OK},
		{"few scores", histogramText("epp_composite_score", .3, 19), "composite-score", Unknown},
		{"an empty tree", stale(0) + "epp_prefix_tree_nodes 0\n", "prefix-tree", Warn},
		{"an empty tree before the first request", "epp_prefix_tree_nodes 0\n", "prefix-tree", OK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := look(t, single(text(t, "process_start_time_seconds 1.796e9\n"+tc.page)))
			if c := check(t, d, tc.code); c.Status != tc.want || c.Saw == "" {
				t.Errorf("%s is %s (%s), want %s", tc.code, c.Status, c.Saw, tc.want)
			}
		})
	}
}

// An alert that asks for minutes is a warning until they were seen.
func TestAlertsThatAskForMinutes(t *testing.T) {
	held := new(Held)
	full := "epp_max_queue 20\nepp_queue_depth{pod=\"a\"} 19\n"
	for _, step := range []struct {
		after time.Duration
		page  string
		want  Status
		seen  time.Duration
	}{
		{0, full, Warn, 0},
		{4 * time.Minute, full, Warn, 4 * time.Minute},
		{5 * time.Minute, full, Alert, 5 * time.Minute},
		{6 * time.Minute, "epp_max_queue 20\nepp_queue_depth{pod=\"a\"} 1\n", OK, 0},
		{7 * time.Minute, full, Warn, 0},
		{8 * time.Minute, "epp_max_queue 20\nepp_queue_depth{pod=\"b\"} 1\n", OK, 0},
		{20 * time.Minute, full, Warn, 0}, // it was gone in between
	} {
		o := single(text(t, step.page))
		o.Now = now.Add(step.after)
		d, err := Look(o, held)
		if err != nil {
			t.Fatal(err)
		}
		if c := check(t, d, "queue"); c.Status != step.want || c.SeenSeconds != step.seen.Seconds() {
			t.Errorf("after %v: %s, seen for %vs; want %s, %v", step.after, c.Status, c.SeenSeconds, step.want, step.seen)
		}
	}
	// One reading of a process that has run for long has seen its minutes.
	p := text(t, histogramText("epp_cache_match_ratio", .2, 9)+fmt.Sprintf("process_start_time_seconds %d\n", now.Add(-time.Hour).Unix()))
	p.At = now
	if c := check(t, look(t, single(p)), "cache-match"); c.Status != Alert || c.SeenSeconds != 3600 {
		t.Errorf("cache match over an hour: %+v", c)
	}
}

func scores(bins ...float64) *Distribution {
	h := &Histogram{}
	for i, n := range bins {
		h.Count += n
		h.Buckets = append(h.Buckets, Bucket{float64(i+1) / float64(len(bins)), h.Count})
	}
	h.normalise()
	d := distribution(h)
	d.shape()
	return d
}

func TestShapes(t *testing.T) {
	for _, tc := range []struct {
		name string
		bins []float64
		want string
	}{
		{"cold near .3 and warm near .8", []float64{0, 0, 10, 40, 5, 2, 3, 10, 60, 20}, ShapeBimodal},
		{"two peaks side by side", []float64{0, 0, 0, 0, 0, 0, 30, 25, 30, 0}, ShapeSingle},
		{"warm alone", []float64{0, 0, 0, 1, 0, 0, 5, 40, 50, 10}, ShapeSingle},
		{"cold alone", []float64{0, 5, 60, 40, 0, 0, 0, 0, 0, 0}, ShapeLow},
		{"a few cold ones", []float64{0, 0, 0, 4, 0, 0, 0, 40, 100, 20}, ShapeSingle},
		{"everywhere alike", []float64{10, 10, 10, 10, 10, 10, 10, 10, 10, 10}, ShapeSingle},
		{"too few", []float64{0, 0, 0, 9, 0, 0, 0, 0, 9, 0}, ShapeFew},
		{"none", []float64{0, 0}, ShapeFew},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := scores(tc.bins...); d.Shape != tc.want {
				t.Errorf("%s near %v, want %s", d.Shape, d.Modes, tc.want)
			}
		})
	}
	if d := scores(0, 0, 10, 40, 5, 2, 3, 10, 60, 20); fmt.Sprintf("%.2f", d.Modes) != "[0.35 0.85]" {
		t.Errorf("modes %v, want those of the seed's example", d.Modes)
	}
}

// Doubling all counts changes no shape of a distribution that has one.
func TestShapeDependsOnSharesAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var once, twice []float64
		for range 10 {
			n := float64(rapid.IntRange(0, 50).Draw(t, "n"))
			once, twice = append(once, n), append(twice, 2*n)
		}
		if a, b := scores(once...), scores(twice...); a.Shape != ShapeFew && a.Shape != b.Shape {
			t.Fatalf("%v is %s, twice as much %s", once, a.Shape, b.Shape)
		}
	})
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 7: "7", 1234567: "1,234,567", -1234: "-1,234", 999.5: "999.5", 0.91: "0.910", 12.345: "12.3", 123.456: "123.5",
		0.00001234: "1.23e-05", 1234.5: "1,234", 1e20: "1e+20", posInf: "+Inf",
	} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
	for share, want := range map[float64]string{0: "····", 1: "████", .5: "██··", 1e-9: "▏···", 2: "████", -1: "····"} {
		if got := bar(share); !strings.HasPrefix(got, want[:3]) || len([]rune(got)) != barCells {
			t.Errorf("bar(%v) = %q", share, got)
		}
	}
}
