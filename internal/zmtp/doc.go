// Package zmtp speaks ZMTP 3.1, the wire protocol of ZeroMQ (RFC 23 and 37), over
// TCP with the NULL mechanism: as much of it as the KV events of model servers
// need. SUB and DEALER are what the picker uses, PUB and ROUTER what the simulated
// engines are; either side may connect or be connected to.
//
// The one idea: every connection is a stream of its own, with a [Peer] that names
// it, a beginning and an end that its [Handler] is told. A consumer of numbered
// events must know when a stream was interrupted, and which of two streams with
// the same topic a message came on.
//
// Nobody is authenticated, so everything that arrives is hostile: the handshake
// has one deadline, a message is bounded in bytes, parts and time, memory grows
// with the bytes that came and not with the sizes that were promised, and what
// breaks a rule ends its own connection and no other.
//
// A subscriber drops nothing. While its handler is busy the connection is not
// read, so that TCP holds the publisher back; it is the publisher that drops
// what its queue does not take, which shows as a gap in its numbers.
//
// The package neither decodes events nor asks for missed ones. It has no CURVE or
// PLAIN, no ipc or inproc, and does not speak to peers older than ZMTP 3.0 (libzmq
// before 4.0).
package zmtp
