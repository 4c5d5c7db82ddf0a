package explain

// How the engine's count of cached tokens compares with the prediction, with what
// is known of why. Where it is another count, these are ordered: the first that
// there is evidence for stands.
const (
	PredictionMet         = "asPredicted"
	PredictionOtherPod    = "otherPod"      // another pod served than the prediction was for
	PredictionUnknown     = "unknown"       // the engine did not tell
	PredictionInFlight    = "eventInFlight" // it had more, as events told after the pick
	PredictionUnseen      = "evictedUnseen" // it had less: evicted before the pick, told after it
	PredictionRaced       = "evictionRaced" // … evicted between the pick and the engine's count
	PredictionAfterGap    = "afterGap"      // events of the pod were missed
	PredictionJoinedLate  = "joinedLate"    // it had more: stored before anybody listened
	PredictionAssumed     = "assumed"       // what the pod holds was only assumed
	PredictionUnexplained = "unexplained"   // nothing that is known explains it
)

// Predictions lists the classes; a record holds one by its place, so new ones come
// last.
func Predictions() []string {
	return []string{
		PredictionMet, PredictionOtherPod, PredictionUnknown, PredictionInFlight, PredictionUnseen,
		PredictionRaced, PredictionAfterGap, PredictionJoinedLate, PredictionAssumed, PredictionUnexplained,
	}
}

// predictionText says in words why the counts differ; "" when there is nothing to
// say.
func predictionText(class string) string {
	switch class {
	case PredictionInFlight:
		return "event in flight: stored before the engine looked, told after the pick"
	case PredictionUnseen:
		return "evicted before the pick, told after it"
	case PredictionRaced:
		return "eviction raced: evicted after the pick, before the engine looked"
	case PredictionAfterGap:
		return "events of the pod were missed, so what it holds is not known for sure"
	case PredictionJoinedLate:
		return "stored before the pod's events were listened to"
	case PredictionAssumed:
		return "what the pod holds is only assumed"
	case PredictionUnexplained:
		return "nothing that is known explains the difference"
	}
	return ""
}
