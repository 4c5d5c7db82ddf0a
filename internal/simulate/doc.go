// Package simulate runs a trace through a fleet in virtual time, under one policy
// of routing or several, and says what came of it.
//
// The one idea: one model, two clocks. Pods are the engines of package vllm, which
// eppctl serve --sim puts behind real servers; the policy under test is the very
// picker that serves, with its pool and its tree. Here they are told of each other
// at computed times instead of over the wire, so an hour takes seconds and comes out
// the same each time:
//
//	arrivals ─▶ router ─▶ engine of a pod ─▶ outcome of the request
//	              ▲             │ steps
//	              └─ reports, ◀─┘
//	                 events, metrics
//
// One goroutine runs one policy, and nothing in it reads a clock, a network or a
// map's order. Policies that are compared see the same arrivals, so outcomes can be
// compared request by request.
//
// What is left out stands in docs/simulate.md: the network, what a token's attention
// costs as the context grows, and clients that wait for an answer before they ask on.
package simulate
