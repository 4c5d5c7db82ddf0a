package llmdlog_test

import (
	"fmt"
	"testing"

	"github.com/eppctl/eppctl/internal/llmdlog"
)

func BenchmarkParse(b *testing.B) {
	log := lines(b, "interleaved.jsonl")
	size := 0
	for _, line := range log {
		size += len(line) + 1
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, records := parse(llmdlog.Options{}, log); len(records) != 83 {
			b.Fatal(len(records))
		}
	}
}

// An idle fleet is the worst case: all pods have the same score, and a seed is
// looked for that draws the pick.
func BenchmarkParseTies(b *testing.B) {
	for _, pods := range []int{4, 50, 500} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			var all []endpoint
			var values []float64
			for i := range pods {
				all = append(all, endpoint{name: fmt.Sprintf("pod-%03d", i)})
				values = append(values, 1)
			}
			s := newScript(all...)
			s.plugins["default"] = plugins{scorers: []scorer{{cache, 3}}, picker: best}
			s.start()
			for i := range 20 {
				s.run(fmt.Sprint("r", i), "default", [][]float64{values}, i%pods)
			}
			for b.Loop() {
				if _, records := parse(llmdlog.Options{}, s.lines); len(records) != 20 {
					b.Fatal(len(records))
				}
			}
		})
	}
}
