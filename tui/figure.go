package tui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// percent is 63%. What is not known is the unknown glyph in all of these, never 0.
func (st *styles) percent(v *float64) string {
	if v == nil || !finite(100**v) {
		return st.glyphs.unknown
	}
	return strconv.FormatFloat(math.Round(100**v)+0, 'f', -1, 64) + "%"
}

// finite reports whether v is a number that can be drawn.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// amount is 847, 9.1k, 67k or 1.2M.
func amount(v float64) string {
	if !finite(v) {
		return "?"
	}
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) < 0.9995*unit.size {
			continue
		}
		if scaled := v / unit.size; scaled < 99.95 {
			return strconv.FormatFloat(scaled, 'f', 1, 64) + unit.name
		}
		return strconv.FormatFloat(v/unit.size, 'f', 0, 64) + unit.name
	}
	return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
}

func (st *styles) amountOf(v *float64) string {
	if v == nil {
		return st.glyphs.unknown
	}
	return amount(*v)
}

func (st *styles) wholeOf(v *int) string {
	if v == nil {
		return st.glyphs.unknown
	}
	return amount(float64(*v))
}

func (st *styles) decimal(v *float64, decimals int) string {
	if v == nil || !finite(*v) {
		return st.glyphs.unknown
	}
	return strconv.FormatFloat(*v, 'f', decimals, 64)
}

// signed is a margin: +.31.
func (st *styles) signed(v *float64) string {
	if v == nil {
		return st.glyphs.unknown
	}
	return fmt.Sprintf("%+.2f", *v)
}

// age is 0.4s, 31s, 7m, 3h or 2d.
func (st *styles) age(seconds *float64) string {
	if seconds == nil {
		return st.glyphs.unknown
	}
	return ageText(time.Duration(min(*seconds, maxAge.Seconds()) * float64(time.Second)))
}

// maxAge is the longest age that is told.
const maxAge = 9999 * 24 * time.Hour

func ageText(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// ago is an age without tenths.
func ago(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%ds", max(d, 0)/time.Second)
	}
	return ageText(d)
}

// latency is 0.04ms, 0.4ms, 512ms or 2.1s.
func (st *styles) latency(seconds *float64) string {
	switch {
	case seconds == nil || !finite(1000**seconds):
		return st.glyphs.unknown
	case *seconds < 100e-6:
		return fmt.Sprintf("%.2fms", *seconds*1000)
	case *seconds < 10e-3:
		return fmt.Sprintf("%.1fms", *seconds*1000)
	case *seconds < 1:
		return fmt.Sprintf("%.0fms", *seconds*1000)
	case *seconds < 100:
		return fmt.Sprintf("%.1fs", *seconds)
	}
	return fmt.Sprintf("%.0fs", *seconds)
}

// rate is 41/s, 0.4/s or 1.2k/s.
func (st *styles) rate(v *float64) string {
	switch {
	case v == nil:
		return st.glyphs.unknown
	case *v > 0 && *v < 10:
		return strconv.FormatFloat(*v, 'f', 1, 64) + "/s"
	}
	return amount(*v) + "/s"
}

// latencies is 0.1/0.4ms.
func (st *styles) latencies(a, b *float64) string {
	low, high := st.latency(a), st.latency(b)
	if strings.HasSuffix(low, "ms") && strings.HasSuffix(high, "ms") {
		low = strings.TrimSuffix(low, "ms")
	}
	return low + "/" + high
}

// permille is a percentage with a decimal where it is small.
func (st *styles) permille(v *float64) string {
	if v == nil || *v == 0 || *v >= .1 {
		return st.percent(v)
	}
	return strconv.FormatFloat(100**v, 'f', 1, 64) + "%"
}

// ratio is a part of a whole; nil of nothing.
func ratio(part, whole int) *float64 {
	if whole <= 0 {
		return nil
	}
	return new(float64(part) / float64(whole))
}

// count is "1 pod" or "3 pods".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return amount(float64(n)) + " " + what + "s"
}
