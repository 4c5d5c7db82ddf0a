package simulate

import (
	"math"
	"time"
)

// never is the time of an alarm that is not set.
const never = time.Duration(math.MaxInt64)

// A schedule is a fixed number of alarms, of which the earliest is at hand; of equal
// ones that with the lowest number. It is a tournament: each node has the winner of
// its two children, so that setting an alarm costs as many comparisons as the tree
// is high, whatever is set.
type schedule struct {
	at    []time.Duration
	first int     // leaf of alarm 0
	win   []int32 // by node, 1 is the root
}

func newSchedule(alarms int) *schedule {
	leaves := 1
	for leaves < alarms {
		leaves *= 2
	}
	s := &schedule{at: make([]time.Duration, leaves), first: leaves, win: make([]int32, 2*leaves)}
	for i := range leaves {
		s.at[i], s.win[leaves+i] = never, int32(i)
	}
	for n := leaves - 1; n > 0; n-- {
		s.win[n] = s.win[2*n]
	}
	return s
}

// set sets an alarm, or with never unsets it.
func (s *schedule) set(alarm int, at time.Duration) {
	if s.at[alarm] == at {
		return
	}
	s.at[alarm] = at
	for n := (s.first + alarm) / 2; n > 0; n /= 2 {
		a, b := s.win[2*n], s.win[2*n+1]
		if s.at[b] < s.at[a] {
			a = b
		}
		s.win[n] = a
	}
}

// next is the earliest alarm.
func (s *schedule) next() (alarm int, at time.Duration) {
	i := s.win[1]
	return int(i), s.at[i]
}
