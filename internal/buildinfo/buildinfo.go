// Package buildinfo says which eppctl this is.
//
// The one idea: a release is stamped by the linker, everything else tells what
// the Go toolchain recorded. [Read] needs no flag to be right after `go install
// …@v0.1.0` or a build in a checkout.
//
// It does not ask a server for its version.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// version is set by a release build:
// -ldflags "-X github.com/eppctl/eppctl/internal/buildinfo.version=0.1.0".
var version string

// devel is the version of a build that has none.
const devel = "dev"

// revisionDigits is how much of a commit is shown, as in Go's pseudo-versions.
const revisionDigits = 12

// Info describes one build.
type Info struct {
	Version  string `json:"version"`            // "v0.1.0", a pseudo-version, or "dev"
	Revision string `json:"revision,omitempty"` // the full commit, when it was recorded
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Dirty    bool   `json:"dirty"`              // built with changes that are in no commit
	Go       string `json:"go"`                 // "go1.26.8"
	Platform string `json:"platform"`           // "linux/amd64"
}

// Read describes the running program.
func Read() Info {
	recorded, ok := debug.ReadBuildInfo()
	if !ok {
		recorded = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return from(recorded, version)
}

// from derives the description from what the toolchain recorded and from the
// linker's stamp, which wins unless it is empty.
func from(recorded *debug.BuildInfo, stamp string) Info {
	info := Info{Version: firstVersion(stamp, recorded.Main.Version), Go: recorded.GoVersion}
	goos, goarch := runtime.GOOS, runtime.GOARCH
	for _, setting := range recorded.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Revision = setting.Value
		case "vcs.time":
			info.Time = setting.Value
		case "vcs.modified":
			info.Dirty = setting.Value == "true"
		case "GOOS":
			goos = setting.Value
		case "GOARCH":
			goarch = setting.Value
		}
	}
	info.Platform = goos + "/" + goarch
	return info
}

// firstVersion is the first candidate that names a version, with the "v" that
// Go's versions have and release tools leave out.
func firstVersion(candidates ...string) string {
	for _, candidate := range candidates {
		if candidate == "" || candidate == "(devel)" {
			continue
		}
		if candidate[0] >= '0' && candidate[0] <= '9' {
			return "v" + candidate
		}
		return candidate
	}
	return devel
}

// String is one line: "eppctl v0.1.0 (95e0da8406fd) go1.26.8 linux/amd64".
func (i Info) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "eppctl %s", i.Version)
	if i.Revision != "" {
		modified := ""
		if i.Dirty {
			modified = ", modified"
		}
		fmt.Fprintf(&b, " (%s%s)", i.Revision[:min(len(i.Revision), revisionDigits)], modified)
	}
	fmt.Fprintf(&b, " %s %s", i.Go, i.Platform)
	return b.String()
}
