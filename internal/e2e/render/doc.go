// Package render tests what `eppctl manifests` writes with the programs that read it:
// Helm and Kustomize as libraries, and a real API server that has the published
// definitions of every resource.
//
// The one idea: these are large modules of others that the program itself must never
// need, so this is a module of its own. The definitions come out of the modules that
// publish them, at the versions of go.mod; none is a copy.
//
// `.ci/e2e render` runs it.
package render
