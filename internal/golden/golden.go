// Package golden compares what people read with files that a person has looked at.
//
// The one idea: a file is compared to the letter, and only the flag -update of go test
// writes it anew. What changes from run to run is taken out of the text before, where
// the reader of the test can see it.
//
// It does not know what is in a file. Only tests import it.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files anew")

// Update reports whether files are written anew, for tests that do that themselves.
func Update() bool { return *update }

// Equal fails the test when a text differs from that of a file, whose path is that
// from the test's package. With -update the file is written.
func Equal[T string | []byte](t testing.TB, path string, got T) {
	t.Helper()
	if *update {
		if err := write(path, []byte(got)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write golden files with -update)", err)
	}
	if diff := diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs; run with -update if it should (-want +got):\n%s", path, diff)
	}
}

func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// mostLines is how many lines of a difference are shown.
const mostLines = 80

// diff is the difference of two texts, line by line; "" = none.
func diff(want, got string) string {
	if want == got {
		return ""
	}
	lines := strings.Split(cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")), "\n")
	if more := len(lines) - mostLines; more > 0 {
		lines = append(lines[:mostLines], fmt.Sprintf("… and %d lines more", more))
	}
	return strings.Join(lines, "\n")
}
