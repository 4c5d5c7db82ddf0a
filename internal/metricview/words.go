package metricview

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eppctl/eppctl/internal/cli"
)

// Number writes a number as a person reads it: whole ones with their thousands
// apart, others with three digits that count.
func Number(v float64) string {
	switch abs := math.Abs(v); {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	case v == math.Trunc(v) && abs < 1e15:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case abs >= 1000 && abs < 1e15:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case abs >= 100:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case abs >= 1e-4:
		return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Floor(math.Log10(abs)))), 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Percent writes a ratio in percent.
func Percent(v float64) string { return fmt.Sprintf("%.1f%%", v*100) }

// or is a number that may not be known.
func or(v *float64, write func(float64) string) string {
	if v == nil {
		return cli.Unknown
	}
	return write(*v)
}

func ratio(v float64) string { return fmt.Sprintf("%.2f", v) }

// quantile writes a quantile; one beyond the last bound is above it.
func (d *Distribution) quantile(name string, v *float64) string {
	text := or(v, Number)
	if slices.Contains(d.Beyond, name) {
		return "> " + text
	}
	return text
}

// barCells is the length of a full bar.
const barCells = 24

// bar draws a share from 0 to 1.
func bar(share float64) string {
	eighths := int(math.Round(min(max(share, 0), 1) * barCells * 8))
	if eighths == 0 && share > 0 {
		eighths = 1 // there is something
	}
	full := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		full += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return full + strings.Repeat("·", barCells-len([]rune(full)))
}

// span writes a duration in seconds: short ones with a digit more.
func span(seconds float64) string {
	if seconds < 100 {
		return fmt.Sprintf("%.1fs", seconds)
	}
	return cli.Age(time.Duration(seconds * float64(time.Second)))
}

func toneOf(s Status) cli.Tone {
	switch s {
	case OK:
		return cli.Good
	case Warn:
		return cli.Warn
	case Alert:
		return cli.Bad
	case Unknown:
	}
	return cli.Faint
}

func toneOfState(state string) cli.Tone {
	switch state {
	case StateOK:
		return cli.Good
	case StateDegraded:
		return cli.Warn
	case StateOut:
		return cli.Bad
	}
	return cli.Faint
}
