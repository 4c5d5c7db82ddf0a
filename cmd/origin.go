package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
)

// origin says where a command reads decisions from: pickers, or files and logs.
type origin struct {
	servers []string
	in      poolFlags
	file    string
	weights string
	twice   bool // it is asked more than once
}

func (o *origin) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.servers, serverFlag, nil, "admin `ADDRESS` of a picker: host:port or URL; several are asked all at once (default: 127.0.0.1:9091 if it answers, else the picker of --pool)")
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
	return o.in.flags()
}

// open finds the source. done lets it go.
func (o *origin) open(ctx context.Context, s *cli.Streams) (src source.Source, done func(), err error) {
	opts := source.Options{Stdin: s.In, Now: s.Now, Twice: o.twice, Warn: tellOnce(warner(s))}
	switch {
	case o.weights != "" && o.file == "" && len(o.servers) > 0:
		return nil, nil, errOwnWeights()
	case o.file != "" && (len(o.servers) > 0 || o.in.given()):
		return nil, nil, cli.WithHint(errors.New("-f and --server or --pool: decisions are read from a file or from pickers, not from both"), cli.ExitUsage, "give one of them")
	}
	if opts.Weights, err = parseWeights(o.weights); err != nil {
		return nil, nil, cli.WithHint(err, cli.ExitUsage, "an example: --weights queue-scorer=2,prefix-cache-scorer=3")
	}
	if o.file != "" {
		files, err := source.Open(o.file, opts)
		return files, func() {}, sourceError(err)
	}
	return o.ask(ctx, s, opts)
}

func errOwnWeights() error {
	return cli.WithHint(errors.New("--weights: a picker tells its weights; they are for a log alone"), cli.ExitUsage, "give the log with -f")
}

// ask finds the pickers, or their logs.
func (o *origin) ask(ctx context.Context, s *cli.Streams, opts source.Options) (src source.Source, done func(), err error) {
	found, err := o.in.pickers(ctx, s, o.servers, false)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case found.replicas != nil && found.replicas.kind == kube.KindLLMD:
		logs, err := found.replicas.openLogs(ctx, opts)
		if err != nil {
			found.close()
			return nil, nil, err
		}
		fmt.Fprintln(s.Err, cli.Sanitize(found.replicas.told(found.replicas.picker.Pods, "log")))
		return logs, func() { logs.close(); found.close() }, nil
	case o.weights != "":
		found.close()
		return nil, nil, errOwnWeights()
	case found.replicas != nil:
		return &replicaSource{replicas: found.replicas, opts: opts, looked: clock.Wall{}.Now()}, found.close, nil
	}
	return source.NewPickers(found.clients, opts), found.close, nil
}

func warner(s *cli.Streams) func(string) {
	return func(text string) { fmt.Fprintf(s.Err, "eppctl: warning: %s\n", cli.Sanitize(text)) }
}

// maxTold bounds the warnings that are remembered.
const maxTold = 1000

// tellOnce tells each warning once, however often it is found. It is safe for concurrent
// use.
func tellOnce(warn func(string)) func(string) {
	var mu sync.Mutex
	told := map[string]bool{}
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if told[text] {
			return
		}
		if len(told) >= maxTold {
			clear(told)
		}
		told[text] = true
		warn(text)
	}
}

// first is what completion asks.
func first(servers []string) string {
	if len(servers) == 0 {
		return ""
	}
	return servers[0]
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
	if e, ok := errors.AsType[*source.NowhereError](err); ok {
		code := cli.ExitNotFound
		if e.Deaf > 0 {
			code = cli.ExitUnreachable // it may be there
		}
		return cli.WithHint(err, code, strings.Join(e.Reaches, "\n")+"\nlist recent decisions with 'eppctl decisions'")
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
