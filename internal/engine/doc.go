// Package engine is everything that is said to a model server: its /metrics
// page, its health and its list of models, and when wanted a request for
// one token; and to the exporter of its GPUs.
//
// The one idea: what a server did not say stays unknown. A page that is
// missing, too long, not a metrics page or has NaN in the wrong place yields
// values that are not [Value.Known] and carry a reason; it never yields a zero
// that would make a broken server look idle.
//
// [Reader] reads the pages of a server (vLLM, SGLang or trtllm-serve), [ReadGPU]
// one of a DCGM exporter; [Watcher] asks a changing set of servers at intervals
// and hands the answers to a [Sink].
//
// Reading is meant to cost next to nothing at five pages a second of each pod.
// Lines are skipped by their first bytes, those that matter are compared with the
// last page's before they are decoded, and only what is not the plain form of the
// format goes to prometheus/common, which is also the oracle of the tests.
//
// It keeps no state of the servers, judges no staleness and clamps no value:
// that is the pool's and the scorer's. It never sends a request of a client,
// and it does not read KV events.
package engine
