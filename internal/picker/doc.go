// Package picker is the hot path: request → model → blocks → prefix lookup →
// decision and reservation → record, and the one release of the reservation.
//
// The one idea: a [Pick] is the whole life of a routed request. It is made by
// [Picker.Pick], told when the pod answers and how the request ends, and
// whatever else happens its reservation is released exactly once and its record
// completed, once more where it takes a moment to find out why the engine found
// other than was predicted.
//
// The decision itself is score.Decide and nothing else; other policies
// ([PolicyRandom] and so on) pick after it from the same eligible pods, so that
// the record still says what the scores would have done.
//
// The picker does not talk to engines or clients, and never retries. A gateway
// that got no connection to the pod may ask once for the second best
// ([Pick.Second]).
package picker
