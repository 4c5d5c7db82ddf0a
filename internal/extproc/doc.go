// Package extproc is the picker behind Envoy: the external processing service
// that gateways call once for each HTTP request (the endpoint picker protocol of
// the Gateway API Inference Extension, proposal 004).
//
// The one idea: a stream is an exchange with exactly one end. The gateway sends a
// request's headers and body, gets the destination and the same body back, and
// lets the answer pass by; whichever way the stream ends, the pick is told once
// how the request went, as far as was seen. What the stream's gRPC code says is
// never asked: Envoy cancels streams that went well.
//
//	s, err := extproc.New(extproc.Config{Picker: p, Clock: clk})
//	…
//	g := grpc.NewServer(append(s.Options(), grpc.Creds(credentials))...)
//	s.Register(g)
//	err = g.Serve(listener)
//	s.Close()
//
// The gateway's body mode is known from its first message, and answered in its
// form: FULL_DUPLEX_STREAMED, which the protocol wants, BUFFERED and
// BUFFERED_PARTIAL, and STREAMED and NONE, in which no body comes before the
// destination has to be named, so that only the load decides. Where the gateway
// keeps the answer to itself, Envoy's access log may tell the end (see
// accesslog.go); without it nobody does, and record and counters say so.
//
// Bodies pass byte for byte. Only the name of an aliased model is exchanged, on
// the way there and back. Clients cannot choose a pod: the headers that steer
// requests are dropped in both directions (internal/steering).
//
// It does not decide, does not dial pods, and does not retry: the gateway does,
// down the list of fallbacks.
package extproc
