package cmd

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/serve"
)

func TestReplicaFlags(t *testing.T) {
	tests := []struct {
		name  string
		flags replicaFlags
		token string
		in    *serve.Kube
		peers []string
		named bool // the replica has a name
		err   string
	}{
		{name: "none"},
		{
			name: "a service", flags: replicaFlags{peers: []string{"epp-peers", "other:1", "::1", "[::1]:2"}}, token: "t",
			peers: []string{"epp-peers:9092", "other:1", "[::1]:9092", "[::1]:2"}, named: true,
		},
		{name: "no token", flags: replicaFlags{peers: []string{"epp-peers"}}, err: "--peers needs --report-token-file"},
		{name: "a name", flags: replicaFlags{name: "me"}, named: true},
		{
			name: "a lease that can't be", flags: replicaFlags{leaderElect: "a/B"}, in: &serve.Kube{Pools: []kube.Name{{Namespace: "prod", Name: "chat"}}},
			err: `--leader-elect: nothing in a cluster can be called "a/B"`,
		},
		{name: "both", flags: replicaFlags{peers: []string{"epp-peers"}, leaderElect: usualLease}, token: "t", err: "exclude each other"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := &serve.Options{ReportToken: tt.token}
			err := tt.flags.check()
			if err == nil {
				err = tt.flags.options(o, tt.in)
			}
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || cmp.Diff(o.Peers, tt.peers) != "" || (o.Replica != "") != tt.named {
				t.Errorf("peers %q, replica %q, error %v", o.Peers, o.Replica, err)
			}
		})
	}
}

// An empty value comes of a variable that is not set: replicas that all pick where one
// should are not started.
func TestReplicaFlagsAreFilled(t *testing.T) {
	for _, flag := range []string{"--leader-elect=", "--peers=", "--replica="} {
		s, _, errOut := cli.Test()
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // one that starts ends at once
		if status := run(ctx, s, []string{"serve", "--sim", "1", flag}); status != cli.ExitUsage || !strings.Contains(errOut.String(), "the value is empty") {
			t.Errorf("%s: status %d: %s", flag, status, errOut)
		}
	}
}
