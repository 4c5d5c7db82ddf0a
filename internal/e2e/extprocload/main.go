// Command extprocload measures endpoint pickers: it speaks ext_proc to one as
// Envoy 1.40 does with bodies in FULL_DUPLEX_STREAMED mode, in a closed loop, and
// prints what it saw as one line of JSON. `.ci/extproc-bench` compares this
// project's picker with one that does nothing.
//
//	extprocload --addr 127.0.0.1:9002 --streams 32 --body 1KB     # load on a picker that runs
//	extprocload --addr-file F -- eppctl serve … --addr-file F     # on one that it starts and ends
//	extprocload --hold 1000 --body 400KB …                        # bodies that never end: memory
//	extprocload noop --addr 127.0.0.1:0 --addr-file F             # the picker that does nothing
//	extprocload fleet --pods 100 --endpoints F                    # pods that cost no CPU
//	extprocload bench                                             # all of it, against the promises
//
// The one idea: what a picker adds is the time from the end of the request's body
// to the header reply with the destination in it. Everything before that Envoy
// would wait for anyway, and everything behind it runs beside the request. The
// client's own CPU time stands next to the picker's: on a small machine they
// share processors, so that a latency holds some of both.
//
// The order and content of the messages are those of a recorded HTTP/1.1 exchange
// of the real Envoy; see envoy.go. It is no test of correctness, though an answer
// that is not the body that was sent counts as an error, and it is no Envoy: what
// a request takes through the real one is longer by what Envoy itself needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/eppctl/eppctl/internal/cli"
)

func main() {
	ctx, stop := cli.SignalContext(context.Background())
	err := cli.Interrupted(ctx, run(ctx, os.Args[1:], cli.System()))
	stop()
	cli.PrintError(os.Stderr, err)
	os.Exit(cli.Status(err))
}

// command is one of the program's ways to run.
type command struct {
	name string
	run  func(ctx context.Context, args []string, s *cli.Streams) error
}

var commands = []command{{"load", runLoad}, {"noop", runNoop}, {"fleet", runFleet}, {"bench", runBench}}

func run(ctx context.Context, args []string, s *cli.Streams) error {
	name := "load"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		name, args = args[0], args[1:]
	}
	for _, c := range commands {
		if c.name == name {
			return c.run(ctx, args, s)
		}
	}
	return cli.WithHint(fmt.Errorf("unknown command %q", name), cli.ExitUsage, "there are load, noop, fleet and bench; see extprocload NAME -h")
}

// parse reads the flags of a command. done means that only help was asked for.
func parse(flags *flag.FlagSet, args []string, s *cli.Streams) (done bool, err error) {
	flags.SetOutput(s.Err)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return true, nil
	case err != nil:
		return true, cli.WithHint(err, cli.ExitUsage, "")
	}
	return false, nil
}
