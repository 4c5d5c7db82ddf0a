// Package tui is the dashboard of 'eppctl top': the pods, the verdict on them, the
// decisions as they are taken, and why.
//
// The one idea: what is on the screen is a pure function of what is known.
// [layout] says where each pane stands, a pane is a function from data and size to
// lines, and Update alone changes state; so every screen can be tested as text, at
// every size. The columns and the keys are tables, from which the footer, the help
// page and the dispatch are all made.
//
// Data comes from a [Source], which the commands implement: a picker's admin API, a
// file of decisions, a simulated fleet. Text from the wire passes through one door,
// [styles.clean], and can't act on the terminal.
//
// It is made with Bubble Tea, Lip Gloss and Bubbles: charm.land/bubbletea/v2 and so on
// are the second versions of github.com/charmbracelet/bubbletea and so on.
//
// It opens no connections and reads no files, and it judges nothing: the verdict is
// [explain.FleetWatch]'s.
package tui
