// Package pool holds the endpoints that a picker may choose from and what is
// known of each: readings with their time and source, the requests given to it,
// and its place in the prefix tree.
//
// The one idea: choosing and reserving are one step. [Pool.Choose] shows a
// decision the pods as they are now, reservations of all earlier picks included,
// and books the chosen pod before anybody else can look. So fifty requests in
// one instant see each other, although no report from a pod is that fresh.
//
// Two counters are kept apart. inFlight is the ledger: from the pick to the
// request's end. pending is the part of it that the engine's last report can't
// have seen: picked after that report was taken (less [Allowance]) and not yet
// answered. Queue depth is what the engine reported as waiting plus pending.
//
// What an endpoint holds in its cache is told by its KV events, while their
// connection stands, or by its reports. Each stream of events has a slot of the
// tree of its own, as each rank of an engine has a cache of its own. Where neither
// tells, what was sent to an endpoint may be assumed to be there (internal/assume).
//
// The pool does not fetch anything: internal/engine scrapes and probes,
// internal/kvfeed listens, pods push reports, and all is handed in. It does not
// compute scores.
package pool
