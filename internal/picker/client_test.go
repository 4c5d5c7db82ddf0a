package picker

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/request"
)

func TestClientError(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		want    request.Error
		dropped string
	}{
		{"a fault in the body", &request.Error{Status: 400, Param: "n", Message: "m"}, request.Error{Status: 400, Param: "n", Code: "invalid_request", Message: "m"}, ""},
		{"one with its own code", &request.Error{Status: 400, Code: "c"}, request.Error{Status: 400, Code: "c"}, ""},
		{"no memory", &request.Error{Status: 503, Code: "overloaded"}, request.Error{Status: 503, Code: "overloaded"}, "rejected-overloaded"},
		{"unknown model", &Refusal{404, "model-not-found", "d"}, request.Error{Status: 404, Param: "model", Code: "model_not_found", Message: "d"}, ""},
		{"all full", fmt.Errorf("wrapped: %w", &Refusal{429, "saturated", "d"}), request.Error{Status: 429, Code: "saturated", Message: "d"}, "rejected-saturated"},
		{"no pods", &Refusal{503, "no-endpoints", "d"}, request.Error{Status: 503, Code: "no_endpoints", Message: "d"}, "rejected-no-endpoints"},
		{"what the client must not see", errors.New("s3cret"), request.Error{Status: 500, Code: "internal_error", Message: "internal error"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ClientError(tt.err)
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Error(diff)
			}
			if dropped := Dropped(got); dropped != tt.dropped {
				t.Errorf("dropped for %q, want %q", dropped, tt.dropped)
			}
		})
	}
}
