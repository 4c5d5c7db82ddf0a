package cmd

import (
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
)

// That there is no news from the cluster is a line of its own below the verdict.
func TestTopOncePrintsSilence(t *testing.T) {
	at := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	snap := &explain.Snapshot{Time: at, Verdict: explain.FleetVerdict{Code: explain.VerdictOK, Message: "all 12 pods take requests"}}
	printed := func(replica string) string {
		s, out, _ := cli.Test()
		if err := (&topPrinter{printer: cli.Printer{Streams: s, Format: cli.FormatTable}}).pods(snap); err != nil {
			t.Fatal(err)
		}
		if replica != "" {
			out.Reset()
			snap.Router.Replica = replica
			if err := (&topPrinter{printer: cli.Printer{Streams: s, Format: cli.FormatTable}}).replicas([]*explain.Snapshot{snap}); err != nil {
				t.Fatal(err)
			}
		}
		return out.String()
	}
	if got := printed(""); strings.Contains(got, "cluster:") {
		t.Errorf("it is well, and printed is %s", got)
	}
	snap.Router.Silence = &explain.Silence{Since: at.Add(-130 * time.Second), Pods: 12}
	want := "2026-11-30T14:00:00.000Z  ok: all 12 pods take requests\n2026-11-30T14:00:00.000Z  cluster: API server away for 2m10s, routing on the last known 12 pods\n"
	if got := printed(""); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := printed("epp-0"); !strings.Contains(got, "\n2026-11-30T14:00:00.000Z  epp-0  cluster: API server away") {
		t.Errorf("of a replica it is\n%s", got)
	}
}
