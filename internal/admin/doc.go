// Package admin is the HTTP admin API of a running picker, both ends: the
// [Server] that eppctl serve mounts and the [Client] that the other commands use.
//
// The one idea: what a person may ask of a picker is asked here, read only. The
// few writes are off unless allowed, name what they replace, and are logged.
//
//	GET /healthz                  "ok"
//	GET /v1/version               which eppctl this is
//	GET /v1/snapshot              the fleet in one document, as 'eppctl top -o json' prints it
//	GET /v1/stream                the same again and again, and each decision; ?interval=1s
//	GET /v1/decisions             newest first; ?id= &pod= &model= &adapter= &since= &until=
//	                              &ties= &relaxed= &refused= &stale= &minMargin= &excluded=
//	                              &cacheBelow= &status= &firstBlock= &limit= &format=json|jsonl
//	GET /v1/decisions/{id}        one by a unique prefix of its request or decision ID, or
//	                              latest; ?nth=2 the one before the newest of a repeated ID
//	GET /v1/pods                  what is known of each pod
//	PUT /v1/pods/{pod}/drain      {"drained":true}: no new requests for it
//	GET /v1/tree                  the prefix tree's figures
//	GET /v1/ledger                requests that have not ended, by pod
//	GET /v1/names                 what names of models stand for, by rules, and the rules that lost
//	GET /v1/config                the configuration in force
//	GET /v1/config/weights        the weights in force; the ETag is their generation
//	PUT /v1/config/weights        other ones; needs If-Match with the generation
//	GET, PUT /v1/log-level        {"level":"debug"}
//	…   /v1/sim/…                 the simulated fleet's faults, when there is one
//
// A stream is JSON Lines over one connection, which lasts as long as the client
// wants. Its interval is wall time, 100ms to 1m. Each line is one of
//
//	{"hello":{…}}      the first
//	{"snapshot":{…}}   at once, and then at each interval
//	{"decision":{…}}   a row, when it is taken, and again when its request has ended
//	{"end":{…}}        the last, when it is the picker that ends it
//
// Decisions come at once, up to some hundred at a time; a client that reads too slowly
// loses the oldest, and the snapshots between, which are counted (router.dropped). At
// most 32 follow at once.
//
// Errors are {"error":{"code","message","hint"}}. A page from another site can
// neither read (Host is checked where the server listens on loopback) nor write
// (no method that changes something is taken from a browser).
//
// The package binds no address and ends no connection: timeouts and limits of
// the listener are its caller's. It shows no prompt, header value, key, cookie or
// salt, as nothing that it asks holds one.
package admin
