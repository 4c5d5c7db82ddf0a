package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// told is a test that notes how it fails.
type told struct {
	testing.TB
	text string
}

func (t *told) Helper()                           {}
func (t *told) Errorf(format string, args ...any) { t.text += fmt.Sprintf(format, args...) }
func (t *told) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestEqual(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "file.txt")
	*update = true
	Equal(t, path, "one\ntwo\n")
	*update = false
	Equal(t, path, []byte("one\ntwo\n"))
	for name, got := range map[string]string{"a letter": "one\ntWo\n", "white space": "one\ntwo \n", "no last end of line": "one\ntwo", "nothing": ""} {
		var fails told
		Equal(&fails, path, got)
		if !strings.Contains(fails.text, path+" differs; run with -update") {
			t.Errorf("%s: it says %q", name, fails.text)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "one\ntwo\n" {
		t.Errorf("the file is %q, %v: it was compared alone", b, err)
	}
}

func TestNoFile(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "write golden files with -update") {
			t.Errorf("it says %q", said)
		}
	}()
	Equal(new(told), filepath.Join(t.TempDir(), "none"), "")
}

func TestDifferencesAreShort(t *testing.T) {
	var want, got strings.Builder
	for i := range 1000 {
		fmt.Fprintln(&want, "line", i)
		fmt.Fprintln(&got, "LINE", i)
	}
	if n := strings.Count(diff(want.String(), got.String()), "\n"); n > mostLines {
		t.Errorf("%d lines", n)
	}
}
