package explain

import "strconv"

// Printed is the number that the text gives for what would have flipped.
func Printed(c *Change) float64 {
	_, to := c.printed()
	v, err := strconv.ParseFloat(to, 64)
	if err != nil {
		panic(err)
	}
	return v
}
