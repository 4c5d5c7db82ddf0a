package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/serve"
	"github.com/eppctl/eppctl/internal/shell"
)

// tryPrompt is the text of the printed request: long enough for a few blocks,
// so that asking twice shows a cache at work.
const tryPrompt = "You are the on-call engineer of a fleet of model servers. In one sentence: " +
	"why should a follow-up question go to the pod that answered the question before it?"

// welcome prints what to try next, for a person who has just started the picker.
func (f *serveFlags) welcome(s *cli.Streams, a serve.Addresses) {
	if !s.OutIsTerminal || f.simLoad != "" && !f.simLoadStay {
		return
	}
	var b strings.Builder
	b.WriteString("\nThe picker is ready.")
	if a.Gateway != "" {
		what := ""
		if a.Model == "" {
			what = ", with the name of one of its models for MODEL"
			a.Model = "MODEL"
		}
		fmt.Fprintf(&b, " Send it a request, twice if you like%s:\n\n%s\n", what, curlLines(a))
	}
	if a.Admin != "" {
		fmt.Fprintf(&b, "\nand ask why it went where it went:\n\n  %s\n", shell.Line(explainArgs(s, a)...))
	}
	if a.Extproc != "" {
		fmt.Fprintf(&b, "\nEnvoy asks it by ext_proc at %s.\n", reachable(a.Extproc))
	}
	if a.Events != "" {
		fmt.Fprintf(&b, "\nEngines connect to tcp://%s to publish their KV events.\n", a.Events)
	}
	fmt.Fprintln(s.Out, b.String())
}

// curlLines is a request that a shell can run.
func curlLines(a serve.Addresses) string {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body, _ := json.Marshal(struct { // text always marshals
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
	}{a.Model, []message{{"user", tryPrompt}}})
	return fmt.Sprintf("  curl -s %s -H 'Content-Type: application/json' \\\n    -d %s",
		shell.Quote("http://"+reachable(a.Gateway)+"/v1/chat/completions"), shell.Quote(string(body)))
}

// explainArgs is the call that explains the newest decision of this picker.
func explainArgs(s *cli.Streams, a serve.Addresses) []string {
	args := append(self(), "explain", "latest")
	if server := reachable(a.Admin); server != admin.DefaultServer || s.Env(admin.EnvServer) != "" {
		args = append(args, "--"+serverFlag, server)
	}
	return args
}

// reachable is an address that this host can connect to: a listener on all
// addresses is reached on the loopback one.
func reachable(address string) string {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil || !parsed.Addr().IsUnspecified() {
		return address
	}
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), parsed.Port()).String()
}

// explainStart adds what to do to an error of the start. args are those of the
// call.
func explainStart(err error, args []string) error {
	if busy, ok := errors.AsType[*serve.PortInUseError](err); ok {
		return cli.WithHint(err, cli.ExitError, freePorts(busy, args))
	}
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return cli.WithHint(err, cli.ExitUsage, "give addresses as HOST:PORT, port 0 for any free one")
	}
	if _, ok := errors.AsType[*net.OpError](err); ok { // the host's fault, not the call's
		return err
	}
	return cli.WithHint(err, cli.ExitUsage, "see 'eppctl serve --help'")
}

// freePorts is the same call with ports that are free.
func freePorts(busy *serve.PortInUseError, args []string) string {
	var instead []string
	for _, port := range busy.Ports {
		if port.Flag == "" {
			return fmt.Sprintf("choose another address for %s in the configuration", port.Name)
		}
		if port.Free == "" {
			return fmt.Sprintf("choose another address with --%s", port.Flag)
		}
		instead = append(instead, "--"+port.Flag, port.Free)
	}
	for _, a := range args {
		// A secret is not shown again, so the call can't be.
		if a == "--report-token" || strings.HasPrefix(a, "--report-token=") {
			return "these are free: add " + shell.Line(instead...)
		}
	}
	line := append(self(), withoutFlags(args, busy.Ports)...)
	return "this works: " + shell.Line(append(line, instead...)...)
}

// withoutFlags takes the flags of busy ports off the arguments.
func withoutFlags(args []string, ports []serve.BusyPort) (kept []string) {
	for i := 0; i < len(args); i++ {
		drop := false
		for _, port := range ports {
			flag := "--" + port.Flag
			if args[i] == flag {
				i++ // and its value
				drop = true
				break
			}
			drop = drop || strings.HasPrefix(args[i], flag+"=")
		}
		if !drop {
			kept = append(kept, args[i])
		}
	}
	return kept
}

// self is how this program was called, in a form that can be typed again.
func self() []string {
	if strings.Contains(os.Args[0], string(filepath.Separator)+"go-build") { // go run
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Path != "" {
			if dir, ok := strings.CutPrefix(info.Path, info.Main.Path); ok {
				return []string{"go", "run", "." + dir}
			}
		}
	}
	return []string{os.Args[0]}
}
