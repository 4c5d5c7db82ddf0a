// Package load is the built-in traffic of eppctl serve --sim-load: real HTTP
// requests through the gateway, from a recorded trace or from made-up
// conversations, and the sum of what came of them.
//
// The one idea: what is summed up is read from the records of the picker, not
// from what the generator believes; a summary that says "replays identical" has
// replayed every record.
//
// Arrivals are an open loop in the time of the picker's clock: a slow fleet gets
// its requests all the same. The package starts no fleet and makes no decisions.
package load
