package request

import (
	"net/http"
	"strings"
)

// Read reads what routing needs of any request: [Parse] for a plain POST. What
// has no prompt that can be read is routed all the same, without a prefix.
// Coding is what [Coding] says of the request.
func Read(method, path, coding string, body []byte, limits Limits) (*Request, error) {
	plain := &Request{Kind: Other, Choices: 1}
	if coding != "" {
		plain.NoPrefix = coding + " has no prompt prefix that can be read"
		return plain, nil
	}
	if method != http.MethodPost {
		if r, err := Parse(path, body, limits); err == nil && r.Kind == Other {
			return r, nil
		}
		plain.NoPrefix = "only a POST has a prompt prefix"
		return plain, nil
	}
	return Parse(path, body, limits)
}

// Coding describes a body by its Content-Encoding (several values joined by
// commas), "" when it is plain. Only known names are repeated: the text goes
// into records.
func Coding(contentEncoding string) string {
	coding := strings.ToLower(strings.TrimSpace(contentEncoding))
	switch coding {
	case "", "identity":
		return ""
	case "gzip", "deflate", "br", "zstd":
		return "a compressed body (" + coding + ")"
	}
	return "an encoded body"
}
