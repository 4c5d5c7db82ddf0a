package explain

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// readRatio reads a number from 0 to top; a value with % is a hundredth.
func readRatio(l Edit, top float64) (float64, error) {
	text, percent := strings.CutSuffix(l.Value, "%")
	v, err := strconv.ParseFloat(text, 64)
	if percent {
		v /= 100
	}
	switch {
	case err != nil || math.IsNaN(v):
		return 0, fmt.Errorf("%s: %q is no number", l.Key, l.Value)
	case !(v >= 0 && v <= top) && top < math.MaxFloat64:
		return 0, fmt.Errorf("%s: must be from 0 to %s, got %s", l.Key, number(top), l.Value)
	case !(v >= 0 && v <= top):
		return 0, fmt.Errorf("%s: must be at least 0 and finite, got %s", l.Key, l.Value)
	}
	return math.Abs(v), nil // −0 becomes 0
}

// readWhole reads a whole number that a picker can be given.
func readWhole(l Edit, least int) (int, error) {
	n, err := strconv.Atoi(l.Value)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %q is no whole number", l.Key, l.Value)
	case n < least || n > math.MaxInt32:
		return 0, fmt.Errorf("%s: must be from %d to %d, got %d", l.Key, least, math.MaxInt32, n)
	}
	return n, nil
}
