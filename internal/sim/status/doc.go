// Package status is what a simulated pod tells of its engine, before it is put on
// the wire: status reports, KV events, and how busy the GPU is.
//
// The one idea: the fleet with real servers (package sim) and the simulation in
// virtual time (package simulate) say the same of the same engine, since both say
// it with these functions.
//
// It sends nothing and has no clock.
package status
