// Package score is the engine that decides which pod serves a request, and the
// only place in eppctl where a score is computed. Serving, explaining,
// replaying, tuning and simulating all call [Decide].
//
// The one idea: a decision is a pure function of what was known when it was
// taken. [Decide] reads the request, the pods, the results of custom scorers,
// the weights and a seed, and nothing else: no clock, no global, no map order,
// no I/O. The same inputs give the same bits on every platform, which is why a
// recorded decision can be replayed and not just described.
//
// # The formula
//
//	S(p) = w_cache   · cacheMatch(p)      matched blocks / blocks of the prompt
//	     + w_load    · load(p)            1 − min(utilization / maxUtilization, 1)
//	     + w_queue   · queueDepth(p)      1 − min((waiting + pending) / maxQueue, 1)
//	     + w_health  · health(p)          the health score itself
//	     + w_adapter · adapterMatch(p)    1 when the LoRA adapter is loaded, else 0
//	     + Σ w_custom · custom(p)         in the order of registration
//
// Products are rounded to float64 before they are added and the sum is taken in
// this order, so that no platform fuses a multiplication into an addition.
//
// # Missing is not zero
//
// Every input carries a [State]. An input that is stale or unknown earns its
// factor's worst value and says so; it never takes a pod out of the running.
// The zero State is Unknown: what nobody filled in is not known.
//
// # What this package does not do
//
// It does not fetch, cache, count, log or wait. It does not run custom scorers
// (the picker does, under a deadline; their results are inputs here). It does
// not know prompts, only how many of their blocks a pod holds.
package score
