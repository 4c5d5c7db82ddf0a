package cmd

import (
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/buildinfo"
	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

// A picker whose image tells no version is asked for it; one that can't be asked has the
// digest of its image.
func TestPoolsAskForVersions(t *testing.T) {
	digest := func(_, _, status kubetest.Doc) {
		status["containerStatuses"].([]kubetest.Doc)[0]["imageID"] = "eppctl@sha256:1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809"
	}
	api, config := servingCluster(t, replicaPod("epp-0", kubetest.Image("eppctl:latest"), digest), replicaPod("epp-1", kubetest.Image("eppctl:latest"), digest))
	adminBehind(t, api, "epp-0", map[string]any{"/v1/config": &admin.Config{}, "/v1/version": &admin.Version{Info: buildinfo.Info{Version: "v0.9.1"}}})
	out, complaints, _ := runTest(t, "pools", "--kubeconfig", config, "-n", "serving")
	if !strings.Contains(out, " v0.9.1,sha256:1a2b3c4d5e6f ") {
		t.Errorf("%s%s", out, complaints)
	}
}
