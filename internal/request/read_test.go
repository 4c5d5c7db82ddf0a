package request

import (
	"net/http"
	"testing"
)

// case B6, case X8
func TestRead(t *testing.T) {
	body := `{"model":"m","prompt":"a"}`
	for _, tt := range []struct {
		name, method, path, encoding, body string
		kind                               Kind
		model, noPrefix                    string
	}{
		{"POST", "POST", "/v1/completions", "", body, Completions, "m", ""},
		{"identity", "POST", "/v1/completions", " Identity", body, Completions, "m", ""},
		{"compressed", "POST", "/v1/completions", "GZIP", "\x1f\x8b", Other, "", "a compressed body (gzip) has no prompt prefix that can be read"},
		{"two codings", "POST", "/v1/completions", "gzip,br", "x", Other, "", "an encoded body has no prompt prefix that can be read"},
		{"a coding of the client's own making", "POST", "/v1/completions", "secret", "x", Other, "", "an encoded body has no prompt prefix that can be read"},
		{"GET of a path that generates", "GET", "/v1/completions", "", body, Other, "", "only a POST has a prompt prefix"},
		{"GET of one without a body", "GET", "/v1/completions", "", "", Other, "", "only a POST has a prompt prefix"},
		{"GET of another path", "GET", "/v1/models", "", "", Other, "", "/v1/models has no prompt prefix"},
		{"embeddings", "POST", "/v1/embeddings", "", `{"model":"m"}`, Other, "m", "/v1/embeddings has no prompt prefix"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Read(tt.method, tt.path, Coding(tt.encoding), []byte(tt.body), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind != tt.kind || r.Model != tt.model || r.NoPrefix != tt.noPrefix || r.Choices != 1 {
				t.Errorf("%+v, want kind %v, model %q, no prefix because %q, 1 choice", r, tt.kind, tt.model, tt.noPrefix)
			}
		})
	}
	if _, err := Read(http.MethodPost, "/v1/completions", "", []byte("{"), Limits{}); err == nil {
		t.Error("half a body is taken")
	}
}
