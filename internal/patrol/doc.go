// Package patrol looks at a fleet from the outside: at the metrics pages of a picker
// that tells nothing else, such as llm-d's, and at those of the engines.
//
// The one idea: a round reads every page once, and a snapshot is made of the pages
// alone. Counts are differences of two pages of one process, taken by
// internal/metricview, so a window needs nothing but the page of its beginning. A page
// that can't be read is a state of its pod, with the reason.
//
//	p := patrol.New(patrol.Config{Clock: clock.Wall{}, Pages: patrol.Pages{Pickers: pages, Engines: engines}})
//	snapshot, err := p.Look(ctx)
//
// The verdict is by the rules of [explain.FleetWatch]. What pages do not tell is null
// in the snapshot, and named in its list of what is missing: decisions are.
//
// # Bounds
//
// Of a page the families that count are kept, of the last five minutes about 25 pages
// each: the older, the further apart. Rates of windows are right to a fifth.
//
// It starts nothing that goes on between rounds, and asks engines for nothing but
// their page.
package patrol
