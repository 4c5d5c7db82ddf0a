// Package serve puts a picker together and runs it: listeners, pool, watcher of
// engines, prefix tree, recorder, gateway, ext_proc server, health, admin API, and
// with --sim a fleet of simulated pods.
//
// The one idea: everything is built before anything runs, and everything that
// runs is waited for. A port in use or a wrong setting is an error before the
// first goroutine; a signal turns readiness off, serves on while clients are
// there that may not know, lets requests finish, then ends the rest in the order of
// who needs whom.
//
// It decides nothing about routing and prints nothing: the command prints what
// to try next when [Options.Ready] is called.
package serve
