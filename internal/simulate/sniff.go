package simulate

import (
	"bytes"
	"strings"
)

// IsTrace reports whether a file that begins so is one for [Read], and not a log or
// recorded decisions.
func IsTrace(begin []byte) bool {
	begin = bytes.TrimSpace(begin)
	first, _, _ := bytes.Cut(begin, []byte("\n"))
	if bytes.HasPrefix(first, []byte("{")) {
		return bytes.Contains(first, []byte(`"input_length"`))
	}
	for name := range strings.SplitSeq(string(first), ",") {
		if strings.EqualFold(strings.TrimSpace(name), "input") {
			return true
		}
	}
	return bytes.HasPrefix(first, []byte("#"))
}
