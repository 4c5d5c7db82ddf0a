package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eppctl/eppctl/internal/buildinfo"
	"github.com/eppctl/eppctl/internal/cli"
)

func newVersion(s *cli.Streams) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "version",
		Short: "Print which eppctl this is",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			format, err := cli.ParseFormat(output, cli.FormatText, cli.FormatJSON, cli.FormatYAML)
			if err != nil {
				return usage(err, c)
			}
			info := buildinfo.Read()
			if format == cli.FormatText {
				_, err := fmt.Fprintln(s.Out, info)
				return err
			}
			return cli.Printer{Streams: s, Format: format}.Document(info)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "output `FORMAT`: text, json or yaml")
	return c
}
