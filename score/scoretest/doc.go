// Package scoretest tests custom scorers, at three levels.
//
// Unit: build pods in one line each and look at what the scorer says of them.
//
//	req := scoretest.Request(100)
//	got := scoretest.Score(t, scorer, req,
//		scoretest.Pod("a", scoretest.Cached(80)),
//		scoretest.Pod("b", scoretest.Annotation("eppctl.dev/price-per-hour", "0.38")))
//
// Contract: [Contract] holds the scorer to what [score.Scorer] asks of it:
// values in [0,1], the same answer for the same arguments, no changed
// arguments, no panic, an end soon after the deadline, and concurrent calls.
//
// Replay: [Replay] takes recorded decisions (eppctl decisions -o jsonl) again
// with the scorer taking part, and tells which picks would have changed.
//
// The one idea: the scorer is called the way the picker calls it, and decisions
// are taken by the engine that serves. The package does not judge whether a
// scorer is a good idea; that takes traffic.
package scoretest
