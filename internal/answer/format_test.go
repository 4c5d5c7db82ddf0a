package answer

import "testing"

func TestFormatOf(t *testing.T) {
	for _, tt := range []struct {
		name, contentType, contentEncoding string
		want                               Format
	}{
		{"JSON", "application/json", "", JSON},
		{"JSON with a charset", "Application/JSON; charset=utf-8", "identity", JSON},
		{"a kind of JSON", "application/problem+json", "", JSON},
		{"nothing said", "", "", JSON},
		{"stream", "text/event-stream; charset=utf-8", "Identity", EventStream},
		{"compressed", "application/json", "gzip", Opaque},
		{"compressed stream", "text/event-stream", "br", Opaque},
		{"text", "text/plain", "", Opaque},
		{"not a media type", ";", "", Opaque},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := FormatOf(tt.contentType, tt.contentEncoding); got != tt.want {
				t.Errorf("format %d of %q, %q, want %d", got, tt.contentType, tt.contentEncoding, tt.want)
			}
		})
	}
}
