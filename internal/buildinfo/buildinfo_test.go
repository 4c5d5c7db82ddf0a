package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func recorded(mainVersion string, settings ...debug.BuildSetting) *debug.BuildInfo {
	return &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "github.com/eppctl/eppctl", Version: mainVersion},
		Settings: append([]debug.BuildSetting{
			{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "amd64"},
		}, settings...),
	}
}

func vcs(modified string) []debug.BuildSetting {
	return []debug.BuildSetting{
		{Key: "vcs.revision", Value: "95e0da8406fd0123456789abcdef0123456789ab"},
		{Key: "vcs.time", Value: "2026-11-29T10:00:00Z"},
		{Key: "vcs.modified", Value: modified},
	}
}

func TestFrom(t *testing.T) {
	tests := []struct {
		name     string
		recorded *debug.BuildInfo
		stamp    string
		want     string
	}{
		{"release", recorded("(devel)", vcs("false")...), "0.1.0", "eppctl v0.1.0 (95e0da8406fd) go1.26.8 linux/amd64"},
		{"tagged checkout", recorded("v0.1.0", vcs("false")...), "", "eppctl v0.1.0 (95e0da8406fd) go1.26.8 linux/amd64"},
		{"go install", recorded("v0.1.0"), "", "eppctl v0.1.0 go1.26.8 linux/amd64"},
		{"changed checkout", recorded("v0.1.0+dirty", vcs("true")...), "", "eppctl v0.1.0+dirty (95e0da8406fd, modified) go1.26.8 linux/amd64"},
		{"no version control", recorded("(devel)"), "", "eppctl dev go1.26.8 linux/amd64"},
		{"nothing", recorded(""), "", "eppctl dev go1.26.8 linux/amd64"},
		{"stamp with its v", recorded(""), "v0.2.0-rc.1", "eppctl v0.2.0-rc.1 go1.26.8 linux/amd64"},
		{"a stamp that is a word", recorded("v0.1.0"), "nightly", "eppctl nightly go1.26.8 linux/amd64"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := from(test.recorded, test.stamp).String(); got != test.want {
				t.Errorf("from(…, %q) = %q, want %q", test.stamp, got, test.want)
			}
		})
	}
}

func TestFromKeepsWhatWasRecorded(t *testing.T) {
	want := Info{
		Version: "v0.1.0", Revision: "95e0da8406fd0123456789abcdef0123456789ab",
		Time: "2026-11-29T10:00:00Z", Dirty: true, Go: "go1.26.8", Platform: "linux/amd64",
	}
	if diff := cmp.Diff(want, from(recorded("v0.1.0", vcs("true")...), "")); diff != "" {
		t.Errorf("from (-want +got):\n%s", diff)
	}
}

func TestRead(t *testing.T) {
	info := Read()
	if info.Version == "" || info.Go != runtime.Version() || info.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("Read() = %+v, want a version, %s and this platform", info, runtime.Version())
	}
	if !strings.HasPrefix(info.String(), "eppctl ") {
		t.Errorf("String() = %q", info)
	}
}

func ExampleInfo_String() {
	fmt.Println(Info{Version: "v0.1.0", Revision: "95e0da8406fd0123", Go: "go1.26.8", Platform: "linux/amd64"})
	// Output: eppctl v0.1.0 (95e0da8406fd) go1.26.8 linux/amd64
}
