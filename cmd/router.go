package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube"
)

// router is how a client command reaches a picker.
type router struct {
	server string
	in     poolFlags
	quiet  bool
}

// serverFlag names the flag that says which picker to ask.
const serverFlag = "server"

func (r *router) register(fs *pflag.FlagSet) {
	fs.StringVar(&r.server, serverFlag, "", "admin `ADDRESS` of the picker: host:port or URL (default: 127.0.0.1:9091 if it answers, else the picker of --pool)")
}

// connect finds the picker and says on standard error which one it is.
func (r *router) connect(ctx context.Context, s *cli.Streams) (*pickers, error) {
	var servers []string
	if r.server != "" {
		servers = []string{r.server}
	}
	return r.in.pickers(ctx, s, servers, r.quiet)
}

// pickers are those that a command talks to: one, or replicas.
type pickers struct {
	clients  []*admin.Client // none for a picker without an admin API
	replicas *replicas       // they are of a pool in a cluster; nil elsewhere
}

func (p *pickers) close() {
	for _, c := range p.clients {
		c.Close()
	}
	if p.replicas != nil {
		p.replicas.close()
	}
}

// pickers finds those to talk to, in this order: as addresses say, in a cluster that
// is asked for, on this host, in the current context's cluster. It says on standard
// error which they are, unless quiet; of llm-d's the caller does.
func (f *poolFlags) pickers(ctx context.Context, s *cli.Streams, servers []string, quiet bool) (*pickers, error) {
	if list := s.Env(admin.EnvServer); len(servers) == 0 && strings.Contains(list, ",") {
		servers = strings.Split(list, ",")
	}
	named := len(servers) > 0 || s.Env(admin.EnvServer) != ""
	if f.given() && !named {
		found, err := f.find(ctx)
		if err != nil {
			return nil, err
		}
		return found.asked(s, quiet)
	}
	if !quiet {
		f.passedOver(s)
	}
	if len(servers) == 0 {
		servers = []string{""} // wherever one is
	}
	token, err := readToken(adminTokenFlag, f.tokenFile)
	if err != nil {
		return nil, err
	}
	found := new(pickers)
	for _, server := range servers {
		client, err := byAddress(ctx, s, strings.TrimSpace(server), token, len(servers) > 1, quiet)
		if down, ok := errors.AsType[*admin.UnreachableError](err); ok && !named {
			return f.fallback(ctx, s, down, quiet)
		}
		if err != nil {
			found.close()
			return nil, clientError(err)
		}
		found.clients = append(found.clients, client)
	}
	return found, nil
}

// passedOver warns of a pool that was given beside an address.
func (f *poolFlags) passedOver(s *cli.Streams) {
	if f.pool != "" {
		warner(s)("--pool is not followed: --server or " + admin.EnvServer + " says which picker is asked")
	}
}

// byAddress makes a client of the picker at an address.
func byAddress(ctx context.Context, s *cli.Streams, server, token string, several, quiet bool) (*admin.Client, error) {
	if several && server == "" {
		return nil, cli.WithHint(errors.New("--server: an address is empty"), cli.ExitUsage, "give them as host:port,host:port")
	}
	where, err := admin.Locate(ctx, server, s.Env)
	if err != nil {
		return nil, err
	}
	client, err := admin.NewClient(where.Server, admin.ClientOptions{Token: token})
	if err != nil {
		return nil, cli.WithHint(err, cli.ExitUsage, "give --server as host:port or as a URL")
	}
	if !quiet {
		fmt.Fprintln(s.Err, cli.Sanitize(where.String()))
	}
	return client, nil
}

// fallback looks in the current context's cluster, since nobody answers on this host.
func (f *poolFlags) fallback(ctx context.Context, s *cli.Streams, down *admin.UnreachableError, quiet bool) (*pickers, error) {
	inTime, cancel := context.WithTimeout(ctx, unaskedTimeout)
	defer cancel()
	found, err := f.find(inTime)
	if _, none := errors.AsType[*kube.NoConfigError](err); none {
		return nil, clientError(down)
	}
	if err != nil {
		return nil, cli.WithHint(fmt.Errorf("%w, nor in a cluster: %w", down, err), cli.ExitUnreachable, down.Hint())
	}
	return found.asked(s, quiet)
}

// asked makes pickers of replicas, and says which they are.
func (r *replicas) asked(s *cli.Streams, quiet bool) (*pickers, error) {
	found := &pickers{replicas: r}
	if r.kind != kube.KindEppctl {
		return found, nil
	}
	var err error
	if found.clients, err = r.clients(); err != nil {
		r.close()
		return nil, err
	}
	if !quiet {
		fmt.Fprintln(s.Err, cli.Sanitize(r.told(r.picker.Running(), byForward)))
	}
	return found, nil
}

// admin are the clients of a command that llm-d's picker can't serve.
func (p *pickers) admin(what string) ([]*admin.Client, error) {
	if p.replicas != nil && p.replicas.kind == kube.KindLLMD {
		return nil, cli.WithHint(fmt.Errorf("the picker of pool %s is llm-d's, which has no admin API: %s", p.replicas.pool, what), cli.ExitError,
			"what it tells: eppctl explain, decisions, top and metrics")
	}
	return p.clients, nil
}

// partly says how far a change came that was to be made at all replicas.
func partly(err error, done, of int) error {
	if err == nil || of == 1 {
		return err
	}
	return fmt.Errorf("done at %d of %d replicas: %w", done, of, err)
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
	if _, ok := errors.AsType[*kube.StepError](err); ok {
		return stepError(err)
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
