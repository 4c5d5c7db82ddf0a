package cmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/tui"
)

// explore shows a decision on the dashboard, from where weights can be tried and
// other decisions looked at.
func (f *explainFlags) explore(c *cobra.Command, s *cli.Streams, ids []string) error {
	top := topFlags{interval: tui.DefaultInterval, replay: f.from.file, servers: f.from.servers, in: f.from.in}
	switch {
	case !top.onScreen(c, s):
		return usage(errors.New("--interactive: needs a terminal, and prints nothing"), c)
	case len(ids) != 1:
		return usage(errors.New("--interactive: shows one request"), c)
	case len(f.from.servers) > 1:
		return usage(errors.New("--interactive: asks one picker"), c)
	case f.whatIf.asked() || f.whatIf.versus != "" || len(f.whatIf.failOn) > 0:
		return usage(errors.New("--interactive: the key w tries weights; give it without --set, --preset, --max-queue, --without, --vs and --fail-on"), c)
	}
	src, err := top.open(c.Context(), nil, s)
	if err != nil {
		return err
	}
	defer src.done()
	if replay, ok := src.source.(*replaySource); ok {
		replay.at, replay.speed = replay.until, 0
	}
	opt := top.screen(s)
	opt.Explain = ids[0]
	return endedWell(c.Context(), show(c, src.source, opt, func() []string { return src.command }))
}
