package shell

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a shell makes of a printed line must be what was meant.
func TestLine(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	args := []string{"plain", "", "two words", "it's", `a "b" $HOME`, "back`tick", "*.go", "[::]:8080", "ü", "~/x", "a\nb", "&|;<>#!"}
	out, err := exec.Command(sh, "-c", `printf '%s\0' `+Line(args...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Join(args, "\x00")+"\x00", string(out)); diff != "" {
		t.Errorf("through a shell (-want +got):\n%s", diff)
	}
	if got := Line("eppctl", "serve", "--gateway-addr", "127.0.0.1:0"); got != "eppctl serve --gateway-addr 127.0.0.1:0" {
		t.Errorf("quotes where none are needed: %s", got)
	}
}
