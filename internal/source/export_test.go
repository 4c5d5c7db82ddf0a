package source

import (
	"slices"
	"time"

	"github.com/eppctl/eppctl/internal/admin"
)

// SetGrace sets how long the others have once one picker has answered.
func (p *Pickers) SetGrace(d time.Duration) { p.grace = d }

// With asks one more picker.
func (p *Pickers) With(c *admin.Client) *Pickers {
	return NewPickers(append(slices.Clone(p.clients), c), p.opts)
}
