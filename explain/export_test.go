package explain

import (
	"strconv"
	"strings"
)

// Printed is the number that the text gives for what would have flipped.
func Printed(c *Change) float64 {
	_, to := c.printed()
	v, err := strconv.ParseFloat(to, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// TextOf is the part of a report's text that answers "why not that pod".
func TextOf(v *Versus, opt TextOptions) string {
	p, b := newPage(opt), strings.Builder{}
	v.write(p)
	if err := p.writeTo(&b); err != nil {
		panic(err)
	}
	return b.String()
}
