// Package gateway is the HTTP gateway that serve brings along for running
// without Envoy: an OpenAI-compatible reverse proxy in front of a picker.
//
// The one idea: a request is an exchange with exactly one end. Its body is read
// and picked for, what was read is sent to the pod byte for byte, and the answer
// passes by unbuffered while it is watched for the first byte and the engine's
// usage. Whichever way out comes first (the answer's end, a client that hung up,
// a pod that broke off, a panic) tells the pick, once, how it went.
//
//	g, err := gateway.New(gateway.Config{Picker: p, Clock: clk})
//	…
//	server := g.Server()
//	err = server.Serve(listener)
//
// A request is sent a second time only when no byte of it can have reached a
// pod: after a failed dial to the picker's second best, once; after a keep-alive
// connection that turned out to be dead, to the same pod over a new one.
//
// Clients cannot choose a pod: the headers by which gateways, pickers and
// sidecars steer requests are dropped in both directions.
//
// It does not decide, keeps no ledger, authenticates nobody, ends no TLS, and
// does not upgrade connections. Usage is read from OpenAI's answers only (a
// top-level "usage"); of an alias the name is put back where answers carry it at
// the top level, so not into the nested objects of /v1/responses and
// /v1/messages.
package gateway
