// Package health turns what is known of a pod into one score from 0 to 1, and
// says which signals cost how much.
//
// The one idea: a score, not a flag. A pod that is a little worse gets a little
// less, and one that is out is out for a reason of its own. There are two sorts of
// signals. A cost takes something off 1; costs add up, and all of them together
// leave 0.3, with which a pod still takes part. A limit is the most that a pod can
// have, and the lowest holds: only limits put a pod out.
//
//	signal       when                                             costs   limit
//	operator     drained by hand                                          0.0
//	probe        GET /health refused, or failed 3 times in a row          0.0
//	             recovering from that                                     0.3 … 0.9
//	             failed once; twice in a row                    0.1; 0.3
//	models       /v1/models lists none that anybody asks for              0.1
//	generation   1-token probe failed 3 times in a row                    0.0
//	             recovering from that                                     0.3 … 0.9
//	             failed once or twice, or slow while a queue waits  0.4
//	ecc-double   new uncorrectable memory errors                          0.2
//	ecc-single   new corrected ones; 100 and more               0.1; 0.4
//	xid          an error that takes a reset of the GPU                   0.2
//	             any other that is not an application's             0.4
//	temperature  above 83 °C; above 90 °C                       0.2; 0.4
//	throttling   for heat, by software; by hardware             0.1; 0.4
//	memory       98 % of the GPU's in use; 99.5 %               0.1; 0.2
//	warmth       no cached block                                    0.1
//	report       what the pod reports of itself                           that
//
// So these are the bands: 1.0 fully healthy; 0.7–0.9 one or two minor costs;
// 0.3–0.6 a hard one, many minor ones, or recovering; below 0.3 out; 0.0 drained
// or failed.
//
// A signal that is not known costs nothing and is named as unknown: missing is
// never zero. What a pod reports is a limit and no cost, as it may well be about
// the same errors and the same heat.
//
// [Check] is the hysteresis of the probes, [Counter] finds new errors in counters.
// The package is pure: moments come from the caller, as durations since whatever
// moment the caller counts from. It asks nobody, and it does not judge how old a
// value may be: a stale one is handed in as unknown.
package health
