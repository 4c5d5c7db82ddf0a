package extproc

import (
	"testing"

	"github.com/eppctl/eppctl/internal/picker"
)

// TestAnswersOfTheGatewayItself: they are no pod's, and only a failed connection
// says something about one.
func TestAnswersOfTheGatewayItself(t *testing.T) {
	for _, tt := range []struct {
		name, details string
		code          float64
		failed        bool // the pod counts as failed
	}{
		{"refused connection", "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}", 503, true},
		{"closed connection", "upstream_reset_before_response_started{connection_termination}", 503, false},
		{"time is over", "response_timeout", 504, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(s *setup) { s.pods = []string{podAddress(0)} }, func(t *testing.T, s *site) {
				f := s.open(t, fullDuplex, fullDuplex)
				f.send(post(), requestBody(chatBody, true))
				f.send(told(responseHeaders(true, ":status", "503"), map[string]any{
					"upstream.address": podAddress(0), "response.code": tt.code, "response.code_details": tt.details,
				})).done()
				s.settled(t)
				o := s.record(t).Outcome
				if o.Error != picker.ErrorGatewayReply || o.ServedEndpoint != "" || o.CodeDetails != tt.details {
					t.Errorf("recorded as %+v", o)
				}
				g := s.open(t, fullDuplex, fullDuplex)
				g.send(post(), requestBody(chatBody, true))
				g.done()
				if refused := s.Stats().Refused == 1; refused != tt.failed {
					t.Errorf("the next request is refused: %v, want %v", refused, tt.failed)
				}
			})
		})
	}
}
