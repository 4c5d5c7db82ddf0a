// Package telemetry is what a running picker tells the outside: metrics in
// Prometheus' format and structured logs.
//
// The one idea: what is measured on the way of a request costs a few atomic
// additions and no allocation, and everything else is worked out when somebody
// scrapes. An event below the log level costs one comparison.
//
// Missing is never zero: a pod whose queue is not known has no
// epp_queue_depth, and a number that an engine did not tell stands in no log
// line. Label values that clients choose are capped, see [Metrics].
//
// It keeps no history; decisions are kept by internal/record. No prompt, header
// value, key, cookie or salt passes through here.
package telemetry
