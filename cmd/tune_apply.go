package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/shell"
	"github.com/eppctl/eppctl/internal/tune"
)

// picker are the replicas whose weights are changed, all to the same, and those in
// force at each.
func (f *tuneFlags) picker(ctx context.Context, s *cli.Streams) (found *pickers, now []*admin.Weights, err error) {
	r := router{server: first(f.from.servers), in: f.from.in, quiet: true}
	if found, err = r.connect(ctx, s); err != nil {
		return nil, nil, err
	}
	clients, err := found.admin("its weights are in its configuration")
	for i := 0; i < len(clients) && err == nil; i++ {
		var w *admin.Weights
		w, err = clients[i].Weights(ctx)
		now, err = append(now, w), clientError(err)
	}
	if err != nil {
		found.close()
		return nil, nil, err
	}
	return found, now, nil
}

// applyAdvice puts the suggestion in force, keeps what it replaces in a file, and says
// how to go back.
func (f *tuneFlags) applyAdvice(ctx context.Context, s *cli.Streams, a *tune.Advice) error {
	switch {
	case a.Suggestion == nil:
		fmt.Fprintln(s.Err, "nothing to apply: the weights are best kept")
		return nil
	case a.Suggestion.Move.Key == tune.KeyReportInterval:
		return cli.WithHint(errors.New("podReportIntervalMs can't be changed in a running picker"), cli.ExitError,
			"set it in the configuration ('eppctl tune --emit config') and in the pods' reporters, and start them again")
	}
	found, now, err := f.picker(ctx, s)
	if err != nil {
		return err
	}
	defer found.close()
	for _, w := range now {
		have := w.Weights
		if len(now) > 1 {
			have.Generation = a.Weights.Generation // each replica counts its own
		}
		if !reflect.DeepEqual(have, a.Weights) {
			return cli.WithHint(errors.New("other weights are in force than at the newest decision, which the advice is about"), cli.ExitError,
				"let some requests come, and ask again")
		}
	}
	file, err := f.keep(now[0])
	if err != nil {
		return err
	}
	set, done, err := setWeights(ctx, found.clients, now, a.Suggestion.Weights)
	if err != nil {
		if done == 0 && refused(err) { // else they may be in force
			err = errors.Join(err, os.Remove(file))
		}
		return partly(clientError(err), done, len(now))
	}
	fmt.Fprintf(s.Err, "in force, generation %d: %s\nthe weights before are in %s; the way back:\n  %s\n", set.Generation,
		a.Suggestion.Text, cli.Sanitize(file), cli.Sanitize(f.wayBack(file)))
	return nil
}

// setWeights puts weights in force at all replicas, in place of those that are now.
func setWeights(ctx context.Context, clients []*admin.Client, now []*admin.Weights, w explain.Weights) (set *admin.Weights, done int, err error) {
	for i, client := range clients {
		w.Generation = now[i].Generation
		if set, err = client.SetWeights(ctx, w); err != nil {
			return nil, i, err
		}
	}
	return set, len(clients), nil
}

// refused reports whether the picker said that it changes nothing.
func refused(err error) bool {
	_, other := errors.AsType[*admin.GenerationError](err)
	e, request := errors.AsType[*admin.RequestError](err)
	return other || request && e.Status < http.StatusInternalServerError
}

func (f *tuneFlags) wayBack(file string) string {
	args := []string{"eppctl", "tune", "--restore", file, "--yes"}
	if server := first(f.from.servers); server != "" {
		args = append(args, "--"+serverFlag, server)
	}
	return shell.Line(append(args, f.from.in.flags()...)...)
}

// keep writes weights to a file that is not there yet.
func (f *tuneFlags) keep(w *admin.Weights) (name string, err error) {
	if name = f.save; name == "" {
		name = fmt.Sprintf("eppctl-weights-%d.json", w.Generation)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return "", cli.WithHint(fmt.Errorf("%s is there already: nothing was changed", name), cli.ExitError, "give another file with --save")
	}
	if err != nil {
		return "", fmt.Errorf("keep the weights that are replaced: %w", err)
	}
	return name, errors.Join(cli.WriteJSON(file, w), file.Close())
}

const maxWeightsFile = 1 << 16

// putBack puts the weights of a file in force.
func (f *tuneFlags) putBack(ctx context.Context, s *cli.Streams) error {
	old, err := readWeights(f.restore)
	if err != nil {
		return cli.WithHint(fmt.Errorf("--restore: %w", err), cli.ExitUsage, "give the file that --apply wrote")
	}
	found, now, err := f.picker(ctx, s)
	if err != nil {
		return err
	}
	defer found.close()
	set, done, err := setWeights(ctx, found.clients, now, *old)
	if err != nil {
		return partly(clientError(err), done, len(now))
	}
	fmt.Fprintf(s.Err, "in force again, generation %d: the weights of %s\n", set.Generation, cli.Sanitize(f.restore))
	return nil
}

func readWeights(name string) (*explain.Weights, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxWeightsFile))
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	var doc admin.Weights
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if doc.Kind != "Weights" || doc.MaxQueue < 1 {
		return nil, fmt.Errorf("%s: holds no weights", name)
	}
	return &doc.Weights, nil
}
