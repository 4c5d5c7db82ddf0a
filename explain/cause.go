package explain

import "slices"

// The causes of notes: stable codes for programs, see [Causes].
const (
	CauseReplay            = "replay-difference"
	CauseSaturated         = "saturated"
	CauseServedElsewhere   = "served-elsewhere"
	CauseRetried           = "retried"
	CauseSubsetUnknown     = "subset-unknown"
	CauseOwnerQueueFull    = "owner-queue-full"
	CauseOwnerUnhealthy    = "owner-unhealthy"
	CauseOwnerRemoved      = "owner-removed"
	CauseSubset            = "subset"
	CauseEvicted           = "evicted-unseen"
	CauseEvictedRaced      = "evicted-raced"
	CauseEvictedSeen       = "evicted-seen"
	CauseBlockSize         = "block-size-mismatch"
	CauseTokensApproximate = "tokens-approximate"
	CauseInputStale        = "input-stale"
	CauseInputMissing      = "input-missing"
	CauseAdapterAbsent     = "adapter-absent"
	CauseDeeperQueue       = "deeper-queue-won"
	CauseWeights           = "weights"
	CauseTieRandom         = "tie-random"
	CauseNoReuse           = "no-reuse"
	CauseAsDesigned        = "as-designed"
)

// Cause is a reason why a decision came out as it did.
type Cause struct {
	Code string
	// Short is what was unusual, as the end of a sentence; "" for a cause that is
	// nothing unusual.
	Short string
	Means string // what it says, and by which evidence
	Do    string // what may be done about it
}

// Causes are all causes, the gravest first: the first of those that were found is
// the [Report.Cause].
func Causes() []Cause { return slices.Clone(causes) }

var causes = []Cause{
	{
		CauseReplay, "the record does not replay",
		"The engine comes to other results than stand in the record: it was changed, damaged, or written by another version.",
		"Take the record from the picker again; what it says of scores can't be trusted.",
	}, {
		CauseSaturated, "every queue was full",
		"No pod was left with fewer waiting and pending requests than maxQueue. The limit was relaxed for this request, or it was refused with 429.",
		"Add pods, or shed load before the picker; a higher maxQueue only lengthens the wait.",
	}, {
		CauseServedElsewhere, "the gateway had another pod serve",
		"The gateway in front sent the request to another endpoint than was picked.",
		"Look at its retries and outlier detection, and at the health of the picked pod.",
	}, {
		CauseRetried, "the first attempt failed",
		"The picked pod refused the connection, so the second best got the request.",
		"Look at the pod that refused; its health probe will have found it by now.",
	}, {
		CauseSubsetUnknown, "the gateway allowed endpoints that no pod has",
		"The subset that the gateway sent names addresses that are not in the pool.",
		"Compare the gateway's view of the endpoints with the picker's: one of them is out of date.",
	}, {
		CauseOwnerQueueFull, "the owner's queue was full",
		"A pod that would have won was excluded, since its waiting and pending requests reached maxQueue.",
		"See whether one prefix gets too much traffic for one pod; raise maxQueue only if waiting there beats computing anew.",
	}, {
		CauseOwnerUnhealthy, "the owner was unhealthy",
		"A pod that would have won, or that held most of the prompt, had a health score below 0.3.",
		"See what cost it its points: eppctl explain names the signal.",
	}, {
		CauseOwnerRemoved, "the owner was not available",
		"The pod that held most of the prompt was not ready, terminating, or no longer in the pool.",
		"Look at the pod's restarts, at the autoscaler, and at readiness probes.",
	}, {
		CauseSubset, "the gateway did not allow the owner",
		"A pod that would have won was not in the subset of endpoints that the gateway sent.",
		"Look at what chooses the subset: session affinity, canaries, topology.",
	}, {
		CauseEvicted, "the cache was gone and the pick did not know",
		"The engine found fewer cached tokens than were predicted: the blocks were gone before the picker heard of it. The explanation says what tells so: an event that came after the pick, the age of the last report, or that nothing is known.",
		"If it is frequent, report or scrape more often, use KV events, or give the engines more room for their cache.",
	}, {
		CauseEvictedRaced, "the cache was evicted while the request waited",
		"The pod's events show that it evicted predicted blocks after the pick, before its engine looked for them.",
		"See how long requests wait on that pod: lower maxQueue or raise the weight of queue, or give the engines more room for their cache.",
	}, {
		CauseEvictedSeen, "the owner had evicted the prefix",
		"An earlier request left the prefix on a pod, which has dropped it since, or was restarted. The pick knew, so it chose by the rest.",
		"The fleet's caches are too small for the prefixes that come back: add pods, or memory for their caches.",
	}, {
		CauseBlockSize, "a pod's block size can't be compared",
		"A pod's KV blocks are neither a multiple nor a divisor of the picker's, so its cache counts as unknown.",
		"Set blockSize in the picker's configuration to one that fits all engines.",
	}, {
		CauseTokensApproximate, "the token ids were approximate",
		"The engine counted another number of prompt tokens than the picker: its ids were guessed, and blocks can't match as they should.",
		"See why no server tokenised in time: the metrics epp_tokens_…, and tokens in the configuration.",
	}, {
		CauseInputStale, "an input was stale",
		"A value was older than its limit and counted 0; or events of the picked pod were missed, and its engine found fewer cached tokens than were predicted.",
		"Look at the scrapes of the pod, at its KV events, or at its reports, whichever the value comes from.",
	}, {
		CauseInputMissing, "an input was missing",
		"A value was not known and counted 0.",
		"The explanation says why, next to the value.",
	}, {
		CauseAdapterAbsent, "no pod had the adapter",
		"The LoRA adapter of the request was loaded on no eligible pod, so an engine had to load it.",
		"If the adapter comes often, raise the weight of adapter, or serve fewer adapters for each pod.",
	}, {
		CauseDeeperQueue, "the deeper queue won",
		"The winner had the deeper queue, by a quarter of maxQueue at least, and no better cache: other factors outweighed it.",
		"If requests wait too long there, raise the weight of queue or lower maxQueue.",
	}, {
		CauseWeights, "other weights would have picked the owner",
		"A pod that held clearly more of the prompt could have won and lost by load or queue; with the weights of most presets it wins.",
		"Compare with eppctl explain REQUEST --preset NAME. One decision is no reason to change weights.",
	}, {
		CauseTieRandom, "",
		"Several pods were equal in score, load and queue, so the seed chose.",
		"Nothing: this is how traffic spreads over equal pods.",
	}, {
		CauseNoReuse, "",
		"No pod held a block of the prompt, and no earlier request began with it.",
		"Nothing, for new prompts. If they should be alike, look for what changes at their beginning: dates, IDs, the order of tools.",
	}, {
		CauseAsDesigned, "",
		"None of the above: the pod with the best sum of factors got the request.",
		"Nothing.",
	},
}

func causeOf(code string) (place int, c *Cause) {
	for i := range causes {
		if causes[i].Code == code {
			return i, &causes[i]
		}
	}
	return len(causes), nil
}

// benign reports whether a cause is nothing unusual.
func benign(code string) bool {
	_, c := causeOf(code)
	return c != nil && c.Short == ""
}

// mainCause is the gravest of the causes that were found.
func mainCause(notes []Note) string {
	best, place := CauseAsDesigned, len(causes)
	for _, n := range notes {
		if at, _ := causeOf(n.Cause); at < place && !n.minor {
			best, place = n.Cause, at
		}
	}
	return best
}
