// Package playback makes snapshots of a fleet from recorded decisions: what a
// dashboard would have shown at any moment of a recording.
//
// The one idea: a record holds what the picker knew of every pod when it decided, so
// the newest decision before a moment tells the pods, and the decisions of the windows
// before it tell the rates. What no record tells, such as the streams of events, is
// not known, and named as missing.
//
//	r := playback.New(records)
//	snapshot := r.At(r.From().Add(time.Minute))
//
// The verdict is by the rules of [explain.FleetWatch], which look at the seconds before
// the moment too. It reads no files and keeps no time.
package playback
