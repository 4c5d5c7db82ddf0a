package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
)

// origin says where a command reads decisions from: pickers, or files and logs.
type origin struct {
	servers []string
	file    string
	weights string
	twice   bool // it is asked more than once
}

func (o *origin) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.servers, serverFlag, nil, "admin `ADDRESS` of a picker: host:port or URL (default 127.0.0.1:9091); several are asked all at once")
	fs.StringVarP(&o.file, "file", "f", "", "read this `FILE` or directory: decisions as JSON Lines, or a picker's log, gzip and zstd too; - for standard input")
	fs.StringVar(&o.weights, "weights", "", "weights of the scorers, `NAME=N,...`, for logs of llm-d's picker that don't tell them")
}

// flags are those that were given, to be repeated in a command that is suggested.
func (o *origin) flags() []string {
	switch {
	case o.file != "":
		return []string{"-f", o.file}
	case len(o.servers) > 0:
		return []string{"--" + serverFlag, strings.Join(o.servers, ",")}
	}
	return nil
}

// open finds the source. done lets it go.
func (o *origin) open(ctx context.Context, s *cli.Streams) (src source.Source, done func(), err error) {
	opts := source.Options{Stdin: s.In, Now: s.Now, Twice: o.twice, Warn: tellOnce(warner(s))}
	if o.weights != "" && o.file == "" {
		return nil, nil, cli.WithHint(errors.New("--weights: a picker tells its weights; they are for a log alone"), cli.ExitUsage, "give the log with -f")
	}
	if o.file != "" && len(o.servers) > 0 {
		return nil, nil, cli.WithHint(errors.New("-f and --server: decisions are read from a file or from pickers, not from both"), cli.ExitUsage, "give one of them")
	}
	if opts.Weights, err = parseWeights(o.weights); err != nil {
		return nil, nil, cli.WithHint(err, cli.ExitUsage, "an example: --weights queue-scorer=2,prefix-cache-scorer=3")
	}
	if o.file != "" {
		files, err := source.Open(o.file, opts)
		return files, func() {}, sourceError(err)
	}
	clients, err := o.connect(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	return source.NewPickers(clients, opts), func() {
		for _, c := range clients {
			c.Close()
		}
	}, nil
}

func warner(s *cli.Streams) func(string) {
	return func(text string) { fmt.Fprintf(s.Err, "eppctl: warning: %s\n", cli.Sanitize(text)) }
}

// tellOnce tells each warning once, however often it is found.
func tellOnce(warn func(string)) func(string) {
	told := map[string]bool{}
	return func(text string) {
		if !told[text] {
			told[text] = true
			warn(text)
		}
	}
}

// first is what completion asks.
func first(servers []string) string {
	if len(servers) == 0 {
		return ""
	}
	return servers[0]
}

// connect makes a client of each picker, and says on standard error which they are.
func (o *origin) connect(ctx context.Context, s *cli.Streams) ([]*admin.Client, error) {
	servers, env := o.servers, s.Env
	if list := s.Env(admin.EnvServer); len(servers) == 0 && strings.Contains(list, ",") {
		servers = strings.Split(list, ",")
	}
	if len(servers) == 0 {
		servers = []string{""} // wherever one is
	}
	var clients []*admin.Client
	for _, server := range servers {
		r := router{server: strings.TrimSpace(server)}
		if len(servers) > 1 && r.server == "" {
			return nil, cli.WithHint(errors.New("--server: an address is empty"), cli.ExitUsage, "give them as host:port,host:port")
		}
		client, err := r.connect(ctx, &cli.Streams{Err: s.Err, Env: env})
		if err != nil {
			return nil, err
		}
		clients = append(clients, client)
	}
	return clients, nil
}

// parseWeights reads NAME=N,NAME=N.
func parseWeights(text string) (map[string]float64, error) {
	if text == "" {
		return nil, nil
	}
	weights := map[string]float64{}
	for part := range strings.SplitSeq(text, ",") {
		name, number, ok := strings.Cut(strings.TrimSpace(part), "=")
		v, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil || name == "" || !(v >= 0 && v <= 1e6) {
			return nil, fmt.Errorf("--weights: %q is not NAME=NUMBER", part)
		}
		if _, twice := weights[name]; twice {
			return nil, fmt.Errorf("--weights: %q is given twice", name)
		}
		weights[name] = v
	}
	return weights, nil
}

// sourceError gives an error of reading decisions its exit status and a hint.
func sourceError(err error) error {
	if e, ok := errors.AsType[*source.LevelError](err); ok {
		return cli.WithHint(err, cli.ExitNotFound, e.How)
	}
	if e, ok := errors.AsType[*source.MissingError](err); ok {
		return cli.WithHint(err, cli.ExitNotFound, reach(e.MissingError))
	}
	if e, ok := errors.AsType[*record.AmbiguousError](err); ok {
		return ambiguous(err, e.Candidates)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrNotExist) {
		return cli.WithHint(e, cli.ExitNotFound, "export decisions with 'eppctl decisions -o jsonl > FILE'")
	}
	if errors.Is(err, os.ErrPermission) {
		return cli.WithHint(err, cli.ExitError, "read it as a user who may")
	}
	return clientError(err)
}

// reach says what was read.
func reach(e *record.MissingError) string {
	if e.Read == 0 {
		return "the file holds no decisions"
	}
	return fmt.Sprintf("the file holds %d decisions, from %s to %s", e.Read, e.Oldest.UTC().Format(timeFormat), e.Newest.UTC().Format(timeFormat))
}
