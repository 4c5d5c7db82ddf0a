package picker

import "github.com/google/uuid"

// maxRequestID is the longest client-given request ID that is kept.
const maxRequestID = 128

// RequestID is the ID under which a request is known: the client's own when it
// is 1 to 128 printable ASCII characters, else a new UUID v4, and replaced then
// says that there was one that can't be kept.
func RequestID(given string) (id string, replaced bool) {
	if given == "" {
		return uuid.NewString(), false
	}
	if len(given) > maxRequestID {
		return uuid.NewString(), true
	}
	for i := range len(given) {
		if given[i] < ' ' || given[i] > '~' {
			return uuid.NewString(), true
		}
	}
	return given, false
}
