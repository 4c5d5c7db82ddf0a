package admin

import (
	"time"

	"github.com/eppctl/eppctl/internal/fleet"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/score"
)

// newFleet is a watch of the pods of [views], which has looked once.
func newFleet() *fleet.Watch {
	w := fleet.New(fleet.Config{
		Clock: stopped{start.Add(time.Minute)}, Pods: views, Tree: func() prefix.Stats { return prefix.Stats{Blocks: 12} },
		Weights: func() *score.Weights { return new(score.Default()) }, Open: func() int { return 3 }, Policy: "scores",
	})
	w.Look()
	return w
}
