// Command costpicker is eppctl with one more scoring factor, the price of a pod:
// all that a picker with custom scorers needs is a main function like this.
package main

import (
	"os"

	"github.com/eppctl/eppctl/cmd"
	"github.com/eppctl/eppctl/score/cost"
)

func main() {
	os.Exit(cmd.Main(cmd.WithWeights("cache=.55"), cmd.WithScorer("cost", .05, cost.New())))
}
