package fleet

import (
	"math/bits"
	"time"
)

// A sketch counts durations in classes whose bounds grow by a quarter of a power of
// two: unit × 1, 1.25, 1.5, 1.75, 2, 2.5, …. Sketches add up, class by class.
const (
	classBits    = 2 // 4 classes for each power of two
	classes      = 18 << classBits
	perPowerOf2  = 1 << classBits
	ttftUnit     = time.Millisecond // up to 4 minutes
	pickTimeUnit = time.Microsecond // up to a quarter of a second
)

type sketch [classes]uint32

// class is where a duration counts; the first and the last take what is beyond.
func class(d, unit time.Duration) int {
	quarters := uint64(max(0, d)) * perPowerOf2 / uint64(unit)
	power := bits.Len64(quarters) - classBits - 1
	if power < 0 {
		return 0
	}
	return min(power<<classBits+int(quarters>>power)&(perPowerOf2-1), classes-1)
}

// bound is the lowest duration of a class, in seconds.
func bound(class int, unit time.Duration) float64 {
	power, part := class>>classBits, class&(perPowerOf2-1)
	return unit.Seconds() * float64(uint64(1)<<power) * (1 + float64(part)/perPowerOf2)
}

// quantile is the duration, in seconds, that a share q of all is not above; null
// without any. Within a class they are taken to be spread evenly.
func quantile[N uint16 | uint32](counts []N, q float64, unit time.Duration) *float64 {
	var all uint64
	for _, n := range counts {
		all += uint64(n)
	}
	if all == 0 {
		return nil
	}
	rank, below := q*float64(all), 0.0
	for c, n := range counts {
		if below+float64(n) >= rank && n > 0 {
			low, high := bound(c, unit), bound(c+1, unit)
			if c == 0 {
				low = 0
			}
			return new(low + (high-low)*(rank-below)/float64(n))
		}
		below += float64(n)
	}
	return new(bound(classes, unit))
}
