package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
)

const drainLong = `Let a pod get no new requests. Those that run on it finish.

Its health is 0 until 'eppctl undrain', until it leaves the pool, or until the picker
is started again; in a cluster it is so at each replica. Explanations name the
operator as the reason. The picker has to allow it: 'eppctl serve --allow-write'. In a
cluster the annotation eppctl.dev/drain of the pod does the same without that.`

const undrainLong = `Let a pod get requests again that was drained by hand.

Its health is then what its probes, its reports and its GPUs say.`

func newDrain(s *cli.Streams) *cobra.Command {
	c := drainCommand(s, true)
	c.Use, c.Short, c.Long = "drain POD", "Let a pod get no new requests", drainLong
	c.Example = example(`
			# Before its node is taken down
			eppctl drain sim-1

			# And back
			eppctl undrain sim-1`)
	return c
}

func newUndrain(s *cli.Streams) *cobra.Command {
	c := drainCommand(s, false)
	c.Use, c.Short, c.Long = "undrain POD", "Let a drained pod get requests again", undrainLong
	c.Example = example(`
			eppctl undrain sim-1`)
	return c
}

func drainCommand(s *cli.Streams, drained bool) *cobra.Command {
	var r router
	c := &cobra.Command{
		Args: onePod,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completePods(c.Context(), s, r)
		},
		RunE: func(c *cobra.Command, args []string) error { return runDrain(c.Context(), s, &r, args[0], drained) },
	}
	flagGroup(c, "Where from", func(fs *pflag.FlagSet) { r.register(fs) })
	r.in.register(c)
	return c
}

// onePod checks that a command got one pod.
func onePod(c *cobra.Command, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return cli.WithHint(errors.New("no pod given"), cli.ExitUsage, fmt.Sprintf("name it as explanations do: '%s sim-1'", c.CommandPath()))
	}
	return cobra.ExactArgs(1)(c, args)
}

func runDrain(ctx context.Context, s *cli.Streams, r *router, pod string, drained bool) error {
	found, err := r.connect(ctx, s)
	if err != nil {
		return err
	}
	defer found.close()
	clients, err := found.admin("it drains no pod")
	if err != nil {
		return err
	}
	running, done := 0, 0
	for _, client := range clients { // each has its own health of the pod, and sends its own requests
		pods, failed := client.Drain(ctx, pod, drained)
		if failed != nil {
			err = cmp.Or(err, drainError(failed, found.replicas, pod, drained))
			continue
		}
		done++
		for _, p := range pods.Items {
			running += p.InFlight
		}
	}
	if err != nil {
		return partly(err, done, len(clients))
	}
	switch {
	case !drained:
		_, err = fmt.Fprintf(s.Out, "pod %s undrained\n", cli.Sanitize(pod))
	case running == 0:
		_, err = fmt.Fprintf(s.Out, "pod %s drained, nothing runs on it\n", cli.Sanitize(pod))
	default:
		_, err = fmt.Fprintf(s.Out, "pod %s drained, %d requests still run on it\n", cli.Sanitize(pod), running)
	}
	return err
}

// drainError is that of one picker. In a cluster there is a way that needs no right to
// change it.
func drainError(err error, r *replicas, pod string, drained bool) error {
	e, ok := errors.AsType[*admin.RequestError](err)
	if r == nil || !ok || e.Code != admin.CodeReadOnly {
		return clientError(err)
	}
	namespace, name, several := strings.Cut(pod, "/")
	if !several {
		namespace, name = r.pool.Namespace, pod
	}
	annotation := "eppctl.dev/drain=true"
	if !drained {
		annotation = "eppctl.dev/drain-"
	}
	return cli.WithHint(err, cli.ExitUsage, "at the pod itself: "+r.cluster.Kubectl("annotate", "pod", name, annotation, "-n", namespace)+"\n"+e.Hint)
}
