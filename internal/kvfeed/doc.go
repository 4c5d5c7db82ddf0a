// Package kvfeed listens to the KV events of the pool's endpoints and keeps the
// prefix tree up to date with them: one stream for each rank of an engine.
//
// The one idea: everything of a stream happens in the goroutine of its
// connection, in the order in which it came. A batch is decoded and applied
// before the next one is read, and a replay of what was missed is fetched in
// between: meanwhile TCP holds the publisher back, so that nothing has to be
// queued here.
//
//	publisher ──▶ internal/zmtp ──▶ internal/kvevent ──▶ internal/kvindex ──▶ tree
//	                 frames             events             fingerprints
//
// Whose blocks they are is decided by the connection alone. What a batch says of
// itself, its topic and its rank, is compared and counted, and believed in
// nothing.
//
// Where the streams are is, in this order: what the endpoint's configuration
// says, what its engine says (vLLM at /kv_event_sources, SGLang at
// /server_info), and the configured port, one more for each further rank. An
// engine is asked again, ever more seldom, while one of its streams has no
// connection.
//
// The package knows no endpoint's state: that is the [Sink]'s, which also gives
// each stream its slot of the tree. It does not score, and it listens to engines
// that bind their sockets, not to such that connect to the picker.
package kvfeed
