package answer

import (
	"mime"
	"strings"
)

// Format is how an answer's body is written.
type Format uint8

// The formats that differ for a watcher.
const (
	// Opaque is everything that can't be read: nothing is found in it.
	Opaque Format = iota
	// JSON is one JSON text.
	JSON
	// EventStream is server-sent events with a JSON text each.
	EventStream
)

// FormatOf judges by the values of an answer's headers, "" for one that is
// missing. An answer that doesn't say what it is counts as JSON.
func FormatOf(contentType, contentEncoding string) Format {
	if contentEncoding != "" && !strings.EqualFold(contentEncoding, "identity") {
		return Opaque
	}
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil && contentType != "":
		return Opaque
	case media == "text/event-stream":
		return EventStream
	case media == "", media == "application/json", strings.HasSuffix(media, "+json"):
		return JSON
	}
	return Opaque
}
