// Package benchpage is what the comparisons of benchmarks share: their medians,
// how they write numbers, and how a table gets into a page of the documentation.
//
// The one idea: a page keeps its words and gets new figures. A table stands between
// two markers that name it, and only what is between them is replaced.
//
// It runs nothing and knows no limits.
package benchpage

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// Median is the middle of sorted values, the mean of the two middle ones when
// their number is even. There must be one at least.
func Median(values []float64) float64 {
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// Number prints three significant digits without an exponent.
func Number(v float64) string {
	decimals := 0
	if v != 0 {
		decimals = max(2-int(math.Floor(math.Log10(math.Abs(v)))), 0)
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// Update puts lines of text into the file of a page, between the lines
// <!-- NAME: begin --> and <!-- NAME: end -->.
func Update(path, name, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("update the page: %w", err)
	}
	begin, end := fmt.Sprintf("<!-- %s: begin -->\n", name), fmt.Sprintf("<!-- %s: end -->\n", name)
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("update %s: it needs the lines %q and %q", path, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
