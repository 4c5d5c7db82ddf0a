package cmd

import (
	"errors"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube"
)

func TestDrainOfAPickerThatMayNotBeChanged(t *testing.T) {
	refused := &admin.RequestError{FailureText: admin.FailureText{Code: admin.CodeReadOnly, Message: "no", Hint: "start it with --allow-write"}, Status: 403}
	in := &replicas{pool: kube.Name{Namespace: "prod", Name: "chat"}, cluster: &kube.Cluster{Context: "gke-eu1"}}
	tests := []struct {
		name     string
		replicas *replicas
		pod      string
		drain    bool
		want     string
	}{
		{"without a cluster", nil, "sim-0", true, "start it with --allow-write"},
		{"drain", in, "vllm-0", true, "kubectl annotate pod vllm-0 eppctl.dev/drain=true -n prod --context gke-eu1\nstart it with --allow-write"},
		{"undrain", in, "vllm-0", false, "kubectl annotate pod vllm-0 eppctl.dev/drain- -n prod --context gke-eu1"},
		{"pools of several namespaces", in, "other/vllm-0", true, "kubectl annotate pod vllm-0 eppctl.dev/drain=true -n other"},
		{"a name from elsewhere", in, "$(id)", true, `'$(id)'`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, ok := errors.AsType[*cli.Error](drainError(refused, tt.replicas, tt.pod, tt.drain))
			if !ok || e.Code != cli.ExitUsage || !strings.Contains(e.Hint, tt.want) {
				t.Errorf("drainError() = %+v, want the hint %q", e, tt.want)
			}
		})
	}
}
