package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
)

// usage makes a wrong call of a command an error with status 2, and points to
// the help page unless the error knows a better way on.
func usage(err error, c *cobra.Command) error {
	hint := fmt.Sprintf("see '%s --help'", c.CommandPath())
	if known, ok := errors.AsType[*cli.Error](err); ok && known.Hint != "" {
		hint = ""
	}
	return cli.WithHint(err, cli.ExitUsage, hint)
}

// filled refuses flags whose value is empty: it came from a variable that is not
// set, and what it was to protect would be left out without a word.
func filled(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		if f := flags.Lookup(name); f.Changed && isEmpty(f.Value) {
			return fmt.Errorf("--%s: the value is empty; give one, or leave --%s out", name, name)
		}
	}
	return nil
}

func isEmpty(v pflag.Value) bool {
	if list, ok := v.(pflag.SliceValue); ok {
		return len(list.GetSlice()) == 0
	}
	return v.String() == ""
}

// flagError says in this program's words what is wrong with a flag.
func flagError(c *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := e.GetFlag()
		return usage(fmt.Errorf("--%s: %w", f.Name, invalidValue(f, e.GetValue(), err)), c)
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok && e.GetSpecifiedShortnames() == "" {
		if near := nearFlags(c, e.GetSpecifiedName()); near != "" {
			err = fmt.Errorf("%w: did you mean %s?", err, near)
		}
	}
	return usage(err, c)
}

// invalidValue says what a flag's value has to be.
func invalidValue(f *pflag.Flag, value string, err error) error {
	switch f.Value.Type() {
	case "int":
		return fmt.Errorf("%q is no whole number", value)
	case "intSlice":
		return fmt.Errorf("%q is not whole numbers with commas between", value)
	case "float64":
		return fmt.Errorf("%q is no number", value)
	case "bool":
		return fmt.Errorf("%q is neither true nor false", value)
	case "duration":
		return fmt.Errorf("%q is no duration; examples: 30s, 5m", value)
	}
	return err
}

// nearFlags lists the flags that begin like name, or that name begins with.
func nearFlags(c *cobra.Command, name string) string {
	var near []string
	if len(name) < 2 {
		return ""
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, name) || strings.HasPrefix(name, f.Name) {
			near = append(near, "--"+f.Name)
		}
	})
	return strings.Join(near, " or ")
}

// wrapArgs gives wrong positional arguments, unknown commands among them, the
// status of a wrong call.
func wrapArgs(c *cobra.Command) {
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		err := check(c, args)
		if err == nil {
			return nil
		}
		if !c.HasParent() && len(args) > 0 {
			err = fmt.Errorf("unknown command %q", args[0])
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
			}
		} else if len(args) > 0 && c.HasParent() {
			err = fmt.Errorf("unexpected argument %q", args[len(args)-1])
		}
		return usage(err, c)
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

// someRequests checks that a command got request IDs.
func someRequests(c *cobra.Command, args []string) error {
	if len(args) == 0 || slices.Contains(args, "") {
		return cli.WithHint(errors.New("no request ID given"), cli.ExitUsage,
			fmt.Sprintf("give the x-request-id of an answer, or the newest decision: '%s latest'", c.CommandPath()))
	}
	return nil
}
