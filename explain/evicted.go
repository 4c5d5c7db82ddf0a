package explain

import (
	"fmt"

	"github.com/eppctl/eppctl/score"
)

// lessCause is the cause of an engine's having found less in its cache than was
// predicted, by the class of the prediction.
func lessCause(class string) string {
	switch class {
	case PredictionRaced:
		return CauseEvictedRaced
	case PredictionAfterGap:
		return CauseInputStale
	}
	return CauseEvicted
}

// foundLess tells that the engine found less than was predicted, and what is known
// of why. Ids that were not the engine's predict nothing, unless an eviction was
// seen.
func (f *finder) foundLess() (cause, text string) {
	o := &f.Outcome
	if o.Cache != CacheStale || f.Picked == nil {
		return "", ""
	}
	if seen := o.Prediction == PredictionUnseen || o.Prediction == PredictionRaced; !seen && f.miscounted() != "" {
		return "", ""
	}
	text = fmt.Sprintf("stale cache: the engine had %d cached tokens, %d were predicted", *o.CachedTokens, *o.PredictedCachedTokens)
	if why := f.whyLess(); why != "" {
		text += "; " + why
	}
	return lessCause(o.Prediction), text
}

// whyLess says what speaks for the cause, and when it was.
func (f *finder) whyLess() string {
	picked := f.in.rec.candidate(f.Picked.Pod, f.Picked.Endpoint)
	switch f.Outcome.Prediction {
	case PredictionUnseen:
		return "they were evicted before the pick, which was told after it"
	case PredictionRaced:
		if ttft := f.Outcome.TTFTSeconds; ttft != nil {
			return "they were evicted while the request waited, in the " + secondsText(*ttft) + " before its first byte"
		}
		return "they were evicted while the request waited"
	case PredictionAfterGap:
		return "events of " + f.Picked.Pod + " were missed, so what it holds was not known for sure"
	case PredictionAssumed:
		return "what " + f.Picked.Pod + " holds is only assumed, since nobody tells"
	}
	switch {
	case picked != nil && picked.Cache.Source == score.SourceReport.String():
		return "they were gone since the last report of " + f.Picked.Pod + ", " + ageText(picked.Cache.AgeSeconds) + " before the pick"
	case f.Outcome.Prediction == PredictionUnexplained:
		return predictionText(PredictionUnexplained)
	}
	return ""
}
