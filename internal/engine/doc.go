// Package engine is everything that is said to a model server: its /metrics
// page, its health and its list of models.
//
// The one idea: what a server did not say stays unknown. A page that is
// missing, too long, not a metrics page or has NaN in the wrong place yields
// values that are not [Value.Known] and carry a reason; it never yields a zero
// that would make a broken server look idle.
//
// [ParsePage] reads one page (vLLM, SGLang or trtllm-serve), [Watcher] asks a
// changing set of servers at intervals and hands the answers to a [Sink].
//
// It keeps no state of the servers, judges no staleness and clamps no value:
// that is the pool's and the scorer's. It never sends a request of a client,
// and it does not read KV events.
package engine
