// Package peers lets the replicas of a picker tell each other which requests they have
// just given to which pods, so that a burst that is spread over them does not pile up
// where each of them saw room.
//
// The one idea: everybody asks everybody for one stream. It begins with all endpoints
// that have had requests and goes on with those that change, a few milliseconds after
// they do, as absolute counts: what is told twice, or late, is right all the same, and
// who has lost a stream asks for another.
//
//	GET /v1/peers                        Authorization: Bearer <token>
//
//	200, X-Eppctl-Replica: <name>, X-Eppctl-Instance: <random>
//	{"bookings":[{"pod":"a","endpoint":"10.0.0.1:8000","picked":41,"open":3}]}
//	{}
//
// One JSON object a line: picked is how many requests were ever given to the endpoint,
// open how many of these have not begun to be answered. A line without bookings says
// that the replica lives; one comes every second.
//
// With TLS replicas know each other by a certificate that all of them have.
//
// What of this the engine's own figures can't show yet is for internal/pool to find
// out, which knows when those were taken. The package does not elect anybody, and what
// a replica tells is not passed on to a third.
package peers
