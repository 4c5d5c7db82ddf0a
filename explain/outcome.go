package explain

func outcomeOf(rec *Record) ReportOutcome {
	o := &rec.Outcome
	out := ReportOutcome{
		State: o.State, Detail: o.Detail, Error: o.Error,
		TTFTSeconds: finite(o.TTFTSeconds), DurationSeconds: finite(o.DurationSeconds),
		PromptTokens: o.PromptTokens, CachedTokens: o.CachedTokens, OutputTokens: o.OutputTokens,
		PredictedCachedTokens: o.PredictedCached,
		Cache:                 cacheOutcome(rec),
		Prediction:            o.Prediction,
		Attempts:              o.Attempts, Flags: o.Flags, CodeDetails: o.CodeDetails,
	}
	if out.State == "" {
		out.State = OutcomeUnknown
	}
	if o.Status != 0 {
		out.Status = new(o.Status)
	}
	if o.ServedEndpoint != "" {
		out.ServedEndpoint = new(o.ServedEndpoint)
	}
	return out
}

// cacheOutcome compares the engine's cached tokens with the prediction, which
// was made for the pod that was picked.
func cacheOutcome(rec *Record) string {
	o := &rec.Outcome
	switch {
	case o.PredictedCached == nil:
		return CacheNotPredicted
	case o.CachedTokens == nil:
		return CacheNotReported
	case o.ServedEndpoint != "" && rec.Result.Endpoint != "" && o.ServedEndpoint != rec.Result.Endpoint:
		return CacheOtherPod
	case *o.CachedTokens < *o.PredictedCached:
		return CacheStale
	case *o.CachedTokens > *o.PredictedCached:
		return CacheMore
	}
	return CacheAsPredicted
}
