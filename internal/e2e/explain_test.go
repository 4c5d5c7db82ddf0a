package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// A person who asks why is told the same that the programs know.
func TestExplainARequestThroughEnvoy(t *testing.T) {
	r := build(t, setup{cluster: overrideHost, fallbacks: 2, envoyFlags: retries, patch: withSubsets})
	allowed := []any{r.fleet.pods[0].address, r.fleet.pods[1].address}
	c := &call{body: small, header: subset(t, allowed), script: script{Busy: 1}}
	a := r.send(t.Context(), c)
	want := served
	want.attempts = 2
	rec := r.tell(t, c, a, want)
	if rec == nil {
		t.FailNow()
	}
	out, err := exec.CommandContext(t.Context(), program(t), "explain", c.id, "--server", r.picker().at.Admin).CombinedOutput()
	if err != nil {
		t.Fatalf("eppctl explain: %v\n%s", err, out)
	}
	for _, words := range []string{"replay: identical", "subset", rec.Result.Pod, rec.Outcome.ServedEndpoint} {
		if !strings.Contains(string(out), words) {
			t.Errorf("the explanation does not say %q:\n%s", words, out)
		}
	}
}
