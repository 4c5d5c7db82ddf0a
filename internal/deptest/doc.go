// Package deptest holds the shape of the module: which package may import
// which, what third-party code may come in, and what lies at the top level.
//
// The one idea: the arrows of the layout are a table, and the test walks the
// whole import graph with it, so that a dependency through three other packages
// is found as well as a direct one. The linter checks the direct ones while one
// types; this test is what holds.
//
// The test cache does not see files of other packages: run it with -count=1.
//
// It has no code of its own outside of its test.
package deptest
