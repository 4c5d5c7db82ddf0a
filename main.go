// Command eppctl is an endpoint picker for LLM inference that explains itself.
package main

import (
	"os"

	"github.com/eppctl/eppctl/cmd"
)

func main() { os.Exit(cmd.Main()) }
