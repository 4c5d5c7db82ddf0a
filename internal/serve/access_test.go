package serve

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/admin"
)

// doorman lets who shows the token read.
type doorman struct{}

func (doorman) Access(_ context.Context, token, verb, _ string) (string, bool, error) {
	if token != "open-sesame" {
		return "", false, nil
	}
	return "ali", verb == "get", nil
}

func TestAdminAsksForAToken(t *testing.T) {
	opts := serveOptions(1)
	opts.Access, opts.AllowWrite = doorman{}, true
	r := start(t, opts)
	tests := []struct {
		name, server, token string
		ask                 func(c *admin.Client) error
		err                 string
	}{
		{"may read", "https://" + r.at.Admin, "open-sesame", version, ""},
		{"may not write", "https://" + r.at.Admin, "open-sesame", drain, `may not put`},
		{"no token", "https://" + r.at.Admin, "", version, "a bearer token is needed"},
		{"another token", "https://" + r.at.Admin, "x", version, "does not know the token"},
		{"no TLS", r.at.Admin, "open-sesame", version, "it speaks https"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := admin.NewClient(tt.server, admin.ClientOptions{Token: tt.token, TLS: &tls.Config{InsecureSkipVerify: true}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := tt.ask(c); (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v", err)
			}
		})
	}
	r.until("who speaks no TLS is counted", func() bool { return r.ours("epp_admin_handshake_failures_total") != "0" })
}

func version(c *admin.Client) error {
	_, err := c.Version(context.Background())
	return err
}

func drain(c *admin.Client) error {
	_, err := c.Drain(context.Background(), "sim-0", true)
	return err
}
