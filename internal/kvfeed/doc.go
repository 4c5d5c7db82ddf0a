// Package kvfeed listens to the KV events of the pool's endpoints and keeps the
// prefix tree up to date with them: one stream for each rank of an engine, which
// it connects to or which connects to it.
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
// Of an engine that connects to the picker the address tells which endpoint it is.
// Where several share one, or none is there, the topic chooses; then it is believed,
// and for nothing else. A connection is a rank from its first batch on: the one
// that the batch names, or the next that is free. What a lost one told is kept for
// the next of that rank, for some minutes, unless several say they are it. A rank
// that came by a connection of the engine is not dialled meanwhile; one that is
// dialled and connected stays. Whose connections fit nobody is read and dropped.
//
// The package knows no endpoint's state: that is the [Sink]'s, which also gives
// each stream its slots of the tree. It does not score.
package kvfeed
