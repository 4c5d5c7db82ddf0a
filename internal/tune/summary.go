package tune

import (
	"fmt"
	"slices"

	"github.com/eppctl/eppctl/internal/simulate"
	"github.com/eppctl/eppctl/score"
)

// reuse counts the tokens of prompts, and those that an earlier prompt began with. It is
// known to within the distance of a record's ids.
func reuse(t *simulate.Trace) (ideal, tokens int) {
	seen := map[uint64]struct{}{}
	for i := range t.Requests {
		prompt := t.Requests[i].Prompt
		for _, p := range slices.Backward(prompt) {
			if _, ok := seen[p.ID]; ok {
				ideal += p.End
				break
			}
		}
		for k := range prompt {
			seen[prompt[k].ID] = struct{}{}
		}
		tokens += t.Requests[i].Input()
	}
	return ideal, tokens
}

func (t *Traffic) summary(reused float64) Summary {
	c := &t.tally
	s := Summary{
		Decisions: t.seen, Replayed: t.seen - t.differs, Since: t.oldest.UTC(), Until: t.newest.Time.UTC(),
		Pods: len(t.newest.Candidates), Adapters: len(c.adapters), Reuse: max(reused, ratio(c.kept, c.prompt)),
		PromptTokensP50: *orZero(median(c.prompts)), OutputTokensP50: median(c.outputs),
	}
	length := s.Until.Sub(s.Since)
	s.Hours = length.Hours()
	if length > 0 {
		s.RequestsPerSecond = float64(t.seen-1) / length.Seconds()
	}
	if c.enginePrompt > 0 {
		s.CacheHitRatio = new(ratio(c.engineCached, c.enginePrompt))
	}
	if len(c.ttft) > 0 {
		s.TTFTP50 = spreadOf(c.ttft).P50
	}
	return s
}

func median(values []int) *int {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	return new(values[nearestRank(.5, len(values))])
}

func orZero(v *int) *int {
	if v == nil {
		return new(int)
	}
	return v
}

// byReports reports whether pods tell by reports what they hold.
func (t *Traffic) byReports() bool {
	s := t.tally.sources
	return s[score.SourceReport.String()] > s[score.SourceEvents.String()]
}

// interval is how often pods report, in ms, by the age of the oldest report that still
// counted; 0 when none do.
func (t *Traffic) interval() float64 {
	if t.tally.reportAge == 0 || !t.byReports() {
		return 0
	}
	const step = 100 // ms
	return step * float64(max(1, int(1000*t.tally.reportAge/step+0.5)))
}

// Resemblance is the preset that traffic is most like.
type Resemblance struct {
	Preset  string   `json:"preset"`
	Because []string `json:"because"`
	// InForce is the preset that the weights are; "" when they are none.
	InForce string `json:"inForce"`
}

// What kinds of traffic look like.
const (
	manyAdapters  = 10
	longPrompt    = 2000 // tokens, median
	shortPrompt   = 512
	shortAnswer   = 64
	goodReuse     = 0.30
	littleReuse   = 0.20
	presetDefault = "chatbot"
)

// resemble goes by adapters, then by reuse and length.
func resemble(s *Summary, adapters int) Resemblance {
	output := *orZero(s.OutputTokensP50)
	because := []string{
		fmt.Sprintf("%s of the prompts' tokens were in an earlier prompt", percent(s.Reuse)),
		fmt.Sprintf("half of the prompts have %d tokens or fewer", s.PromptTokensP50),
	}
	if s.OutputTokensP50 != nil {
		because = append(because, fmt.Sprintf("half of the answers have %d or fewer", output))
	}
	r := Resemblance{Preset: presetDefault, Because: because}
	switch {
	case adapters >= manyAdapters:
		r.Preset = "multi-lora"
		r.Because = append([]string{fmt.Sprintf("%d adapters", adapters)}, because...)
	case s.Reuse >= goodReuse && s.PromptTokensP50 >= longPrompt:
		r.Preset = "rag"
	case s.Reuse < goodReuse && s.PromptTokensP50 <= shortPrompt && s.OutputTokensP50 != nil && output <= shortAnswer:
		r.Preset = "api-gateway"
	case s.Reuse < littleReuse:
		r.Preset = "batch"
	}
	return r
}

// inForce names the preset that weights are.
func inForce(w *score.Weights) string {
	for _, name := range append([]string{"default"}, score.PresetNames()...) { // chatbot is the same
		p, err := score.Preset(name)
		if err == nil && len(w.Custom) == 0 && w.MaxQueue == p.MaxQueue &&
			[5]float64{w.Cache, w.Load, w.Queue, w.Health, w.Adapter} == [5]float64{p.Cache, p.Load, p.Queue, p.Health, p.Adapter} {
			return name
		}
	}
	return ""
}
