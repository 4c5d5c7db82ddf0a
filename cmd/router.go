package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
)

// router is how a client command reaches a picker.
type router struct {
	server string
	quiet  bool
}

// serverFlag names the flag that says which picker to ask.
const serverFlag = "server"

func (r *router) register(fs *pflag.FlagSet) {
	fs.StringVar(&r.server, serverFlag, "", "admin `ADDRESS` of the picker: host:port or URL (default 127.0.0.1:9091)")
}

// connect finds the picker and says on standard error which one it is.
func (r *router) connect(ctx context.Context, s *cli.Streams) (*admin.Client, error) {
	where, err := admin.Locate(ctx, r.server, s.Env)
	if err != nil {
		return nil, clientError(err)
	}
	client, err := admin.NewClient(where.Server, admin.ClientOptions{})
	if err != nil {
		return nil, cli.WithHint(err, cli.ExitUsage, "give --server as host:port or as a URL")
	}
	if !r.quiet {
		fmt.Fprintln(s.Err, cli.Sanitize(where.String()))
	}
	return client, nil
}

// clientError gives an error of the admin API its exit status and a hint.
func clientError(err error) error {
	if e, ok := errors.AsType[*admin.NotFoundError](err); ok {
		return cli.WithHint(err, cli.ExitNotFound, e.Reach()+"\nlist recent decisions with 'eppctl decisions'")
	}
	if e, ok := errors.AsType[*admin.AmbiguousError](err); ok {
		ids := make([]string, len(e.Candidates))
		for i, c := range e.Candidates {
			ids[i] = c.RequestID
		}
		return ambiguous(err, ids)
	}
	if e, ok := errors.AsType[*admin.UnreachableError](err); ok {
		return cli.WithHint(err, cli.ExitUnreachable, e.Hint())
	}
	if e, ok := errors.AsType[*admin.VersionError](err); ok {
		return cli.WithHint(err, cli.ExitUnreachable, e.Hint())
	}
	if e, ok := errors.AsType[*admin.RequestError](err); ok {
		code := cli.ExitUsage
		switch {
		case e.Status >= 500:
			code = cli.ExitError
		case e.Code == admin.CodeNoSuchPod:
			code = cli.ExitNotFound
		}
		return cli.WithHint(err, code, e.Hint)
	}
	return err
}

// maxListed bounds how many candidates a hint lists.
const maxListed = 10

func ambiguous(err error, ids []string) error {
	more := ""
	if len(ids) > maxListed {
		more = fmt.Sprintf("\nand %d more", len(ids)-maxListed)
		ids = ids[:maxListed]
	}
	return cli.WithHint(err, cli.ExitNotFound, "give more of the ID, it is one of\n"+strings.Join(ids, "\n")+more)
}
