package simulate

import (
	"bytes"
	"strings"
)

// byteOrderMark begins what some spreadsheets write.
var byteOrderMark = []byte("\ufeff")

// IsTrace reports whether a file that begins so is one for [Read], and not a log or
// recorded decisions.
func IsTrace(begin []byte) bool {
	begin = bytes.TrimSpace(bytes.TrimPrefix(begin, byteOrderMark))
	first, _, _ := bytes.Cut(begin, []byte("\n"))
	if bytes.HasPrefix(first, []byte("{")) {
		return bytes.Contains(first, []byte(`"input_length"`)) || bytes.Contains(first, []byte(`"hash_ids"`))
	}
	// Other separators are for Read to refuse.
	for name := range strings.FieldsFuncSeq(string(first), func(r rune) bool { return strings.ContainsRune(",;\t", r) }) {
		if strings.EqualFold(strings.TrimSpace(name), "input") {
			return true
		}
	}
	return bytes.HasPrefix(first, []byte("#"))
}
