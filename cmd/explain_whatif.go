package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/score"
)

// whatIfFlags ask for more than the explanation of a decision: the same decision
// with something changed, why it was not another pod, and a status for scripts.
type whatIfFlags struct {
	sets     []string
	preset   string
	maxQueue int
	without  []string
	versus   string
	failOn   []string

	edits []explain.Edit // what sets, preset, maxQueue and without ask for
}

func (f *whatIfFlags) register(c *cobra.Command) {
	flagGroup(c, "What if", func(fs *pflag.FlagSet) {
		fs.StringArrayVar(&f.sets, "set", nil, "take the decision again with `KEY=VALUE`: weights.queue=.3, maxUtilization=.9, saturation=reject, 'pods[POD].queue=0' (or cache, load, waiting, pending, health, adapter, a custom factor, reason)")
		fs.StringVar(&f.preset, "preset", "", "take it again with the weights of a `WORKLOAD`")
		fs.IntVar(&f.maxQueue, "max-queue", 0, "take it again with `N` requests as a full queue")
		fs.StringArrayVar(&f.without, "without", nil, "take it again without this `POD`")
		fs.StringVar(&f.versus, "vs", "", "say why it was not this `POD`, and what would have made it win")
	})
	flagGroup(c, "For scripts", func(fs *pflag.FlagSet) {
		fs.StringSliceVar(&f.failOn, "fail-on", nil, "end with status 5 when one of these `CAUSES` is found ('eppctl help causes')")
	})
	// EPPCTL_PRESET and its like are meant for the picker: taken from there, an
	// explanation would be one of something else.
	for _, name := range []string{"set", "preset", "max-queue", "without", "vs"} {
		_ = c.Flags().SetAnnotation(name, noVariableKey, []string{"true"}) // fails only for a flag that is not there
	}
	_ = c.RegisterFlagCompletionFunc("preset", oneOf(score.PresetNames()...))
	_ = c.RegisterFlagCompletionFunc("fail-on", oneOf(causeCodes()...))
}

func causeCodes() []string {
	var codes []string
	for _, cause := range explain.Causes() {
		codes = append(codes, cause.Code)
	}
	return codes
}

// check refuses what makes no sense whatever the record.
func (f *whatIfFlags) check(c *cobra.Command) error {
	if err := filled(c.Flags(), "vs", "preset"); err != nil {
		return usage(err, c)
	}
	for _, code := range f.failOn {
		if known := causeCodes(); !slices.Contains(known, code) {
			return usage(cli.WithHint(fmt.Errorf("--fail-on: no cause %q", code), cli.ExitUsage,
				"the causes are "+strings.Join(known, ", ")), c)
		}
	}
	if err := f.read(c.Flags()); err != nil {
		return usage(fmt.Errorf("--set: %w", err), c)
	}
	switch {
	case f.asked() && f.versus != "":
		return usage(errors.New("--vs explains the decision as it was: give it without --set, --preset, --max-queue and --without"), c)
	case f.asked() && len(f.failOn) > 0:
		return usage(errors.New("--fail-on looks at the decision as it was: give it without --set, --preset, --max-queue and --without"), c)
	}
	return nil
}

// read gathers the changes.
func (f *whatIfFlags) read(flags *pflag.FlagSet) error {
	f.edits = nil
	if flags.Changed("preset") {
		f.edits = append(f.edits, explain.Edit{Key: "preset", Value: f.preset})
	}
	if flags.Changed("max-queue") {
		f.edits = append(f.edits, explain.Edit{Key: "maxQueue", Value: strconv.Itoa(f.maxQueue)})
	}
	for _, pod := range f.without {
		f.edits = append(f.edits, explain.Edit{Key: "without", Value: pod})
	}
	for _, text := range f.sets {
		edit, err := explain.ParseEdit(text)
		if err != nil {
			return err
		}
		f.edits = append(f.edits, edit)
	}
	return nil
}

// asked reports whether a decision with changes is asked for.
func (f *whatIfFlags) asked() bool { return len(f.edits) > 0 }

// compare prints the decision beside the one with the changes.
func (f *whatIfFlags) compare(c *cobra.Command, s *cli.Streams, rec *explain.Record, format cli.Format, opt explain.TextOptions) error {
	comparison, err := explain.WhatIf(rec, f.edits)
	if err != nil {
		return wrongQuestion(err, c)
	}
	return writeExplained(s, comparison, format, opt)
}

// against adds to the report why it was not the pod of --vs.
func (f *whatIfFlags) against(c *cobra.Command, rec *explain.Record, report *explain.Report) error {
	if f.versus == "" {
		return nil
	}
	versus, err := explain.WhyNot(rec, f.versus)
	if err != nil {
		return wrongQuestion(fmt.Errorf("--vs: %w", err), c)
	}
	report.Versus = versus
	return nil
}

// wrongQuestion tells a question that doesn't fit the record from a record that
// answers none.
func wrongQuestion(err error, c *cobra.Command) error {
	if errors.Is(err, explain.ErrReplay) {
		return cli.WithHint(err, cli.ExitError, "see what is wrong with it by 'eppctl explain' alone")
	}
	return usage(err, c)
}

// verdict ends the command with status 5 when a cause of --fail-on was found.
func (f *whatIfFlags) verdict(report *explain.Report) error {
	found := []string{}
	for _, code := range f.failOn {
		has := report.Cause == code || slices.ContainsFunc(report.Notes, func(n explain.Note) bool { return n.Cause == code })
		if has && !slices.Contains(found, code) {
			found = append(found, code)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return cli.WithHint(fmt.Errorf("found %s (--fail-on)", strings.Join(found, ", ")), cli.ExitFindings,
		"what they mean and what to do: 'eppctl help causes'")
}
