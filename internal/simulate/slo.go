package simulate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An SLO is what a request is to keep to count as good: a time to first token and a
// time per output token after that. Zero values are no limit.
type SLO struct {
	Text string // as it was asked for
	TTFT time.Duration
	// TTFTCold is added to TTFT: so many times the request's own cold prefill, alone
	// on the fleet's first GPU.
	TTFTCold float64
	TPOT     time.Duration
}

// ParseSLO reads limits as "ttft=2s,tpot=50ms" or "ttft=5s+2x".
func ParseSLO(text string) (*SLO, error) {
	s, given := &SLO{Text: text}, map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if given[key] {
			return nil, fmt.Errorf("SLO %q: %s is given twice", text, key)
		}
		given[key] = true
		var err error
		switch key {
		case "ttft":
			err = s.parseTTFT(value)
		case "tpot":
			s.TPOT, err = limit(value)
		default:
			return nil, fmt.Errorf("SLO %q: no limit %q; there are ttft and tpot, as in ttft=2s,tpot=50ms", text, key)
		}
		if err != nil {
			return nil, fmt.Errorf("SLO %q: %s: %w", text, key, err)
		}
	}
	return s, nil
}

// parseTTFT reads "2s", "5s+2x" or "2x".
func (s *SLO) parseTTFT(value string) (err error) {
	for term := range strings.SplitSeq(value, "+") {
		factor, relative := strings.CutSuffix(term, "x")
		if !relative {
			if s.TTFT, err = limit(term); err != nil {
				return err
			}
			continue
		}
		if s.TTFTCold, err = strconv.ParseFloat(factor, 64); err != nil || !(s.TTFTCold > 0 && s.TTFTCold < 1e6) {
			return fmt.Errorf("want a number above 0 before x, got %q", term)
		}
	}
	return nil
}

func limit(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("want a time as 2s or 50ms, got %q", text)
	}
	return d, nil
}

// good reports whether a request that ended so keeps the limits.
func (s *SLO) good(p *Profile, q *Request, o *Outcome) bool {
	if o.Ending != Completed {
		return false
	}
	if s.TTFT > 0 || s.TTFTCold > 0 {
		most := s.TTFT + time.Duration(s.TTFTCold*float64(p.cold(q.Input())))
		if o.TTFT > most {
			return false
		}
	}
	return s.TPOT == 0 || q.Output < 2 || o.tpot(q) <= s.TPOT
}

// tpot is the time per output token after the first; 0 for an answer of one.
func (o *Outcome) tpot(q *Request) time.Duration {
	if q.Output < 2 {
		return 0
	}
	return (o.E2E - o.TTFT) / time.Duration(q.Output-1)
}
