package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/sim"
)

// A listing is a fleet that the picker knows from its file of endpoints alone.
type listing struct {
	*rig
	file string
}

// newListing runs a fleet of three, with KV events and in wall time, and a picker for
// it. The metrics page of the last pod was never there.
func newListing(t *testing.T) *listing {
	t.Helper()
	fleet, err := sim.New(sim.Config{Pods: 3, Events: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	l := &listing{&rig{t: t, fleet: fleet}, filepath.Join(t.TempDir(), "endpoints.yaml")}
	l.must(fleet.BreakPage("sim-2", sim.PageMissing))
	l.write(nil)
	opts := serveOptions(0)
	opts.EndpointsFile = l.file
	opts.Config.Staleness.MetricsSeconds = 2
	l.rig = start(t, opts)
	l.fleet, l.model = fleet, fleet.Model()
	l.until("the events are listened to", func() bool {
		for _, p := range l.pods() {
			if len(p.Streams) != 1 || !p.Streams[0].Connected {
				return false
			}
		}
		return true
	})
	return l
}

// write lists the pods, each with what is said of it beside; of "-" the pod is left
// out.
func (l *listing) write(also map[string]string) {
	l.t.Helper()
	text := "endpoints:\n"
	for _, p := range l.fleet.Pods() {
		if more := also[p.Name]; more != "-" {
			text += fmt.Sprintf("- {name: %s, url: %q, events: %q, %s}\n", p.Name, p.URL, p.Events, more)
		}
	}
	l.must(os.WriteFile(l.file, []byte(text), 0o600))
}

// now writes the list, with that said of a pod, and waits until the pod is excluded
// for that reason, ready for none, or gone.
func (l *listing) now(pod, more, reason string) {
	l.t.Helper()
	l.write(map[string]string{pod: more})
	l.until(pod+" is "+reason, func() bool {
		p, there := l.pods()[pod]
		return there == (reason != gone) && (!there || p.Reason == reason)
	})
}

// gone is no reason of an exclusion.
const gone = "gone"

// given puts the beginning of a prompt on a pod behind the picker's back.
func (l *listing) given(pod, mark string, tokens int) {
	l.t.Helper()
	l.direct(pod, completionsPath, l.completion(words(mark, tokens), 1))
	l.applied()
}

// asked sends the whole prompt.
func (l *listing) asked(mark string) (pod string) {
	l.t.Helper()
	_, rec := l.ask(mark, completionsPath, l.completion(words(mark, promptTokens), 1))
	l.applied()
	return rec.Result.Pod
}

// A part of a prompt that is worth less than what else speaks for another pod, and
// more than what does when the load counts too.
const part40 = promptTokens * 4 / 10

func TestCausesOfInputsAndEndpoints(t *testing.T) {
	t.Parallel()
	l := newListing(t)
	const blind = "sim-2"
	owner := l.asked("own")
	if owner == blind {
		t.Fatalf("%s was picked, of which no load is known", owner)
	}
	other := map[string]string{"sim-0": "sim-1", "sim-1": "sim-0"}[owner]

	l.given(blind, "mis", part40)
	l.asked("mis")
	l.because("mis", explain.CauseInputMissing, "an input was missing", "load is unknown for "+blind)
	l.asked("mit") // would not have gone there anyway
	if report := l.why("mit"); strings.HasPrefix(report.Cause, "input-") {
		t.Errorf("cause %s of %+v", report.Cause, report.Notes)
	}

	l.given(other, "sta", part40)
	l.must(l.fleet.Hold(other, sim.Channels{Metrics: true}))
	l.until("its numbers are stale", func() bool { return l.pods()[other].Load.State == "stale" })
	l.asked("sta")
	l.because("sta", explain.CauseInputStale, "an input was stale", "load is stale for "+other)
	l.asked("stb")
	if report := l.why("stb"); strings.HasPrefix(report.Cause, "input-") {
		t.Errorf("cause %s of %+v", report.Cause, report.Notes)
	}
	l.must(l.fleet.Release(other, sim.Channels{Metrics: true}))
	l.until("its numbers are fresh", func() bool { return l.pods()[other].Load.State == "known" })

	for _, mark := range []string{"nor", "ter", "out"} {
		l.given(owner, mark, promptTokens)
	}
	l.now(owner, "notReady: true", "not-ready")
	l.asked("nor")
	l.because("nor", explain.CauseOwnerRemoved, "the owner was not available", owner+" would have won", "not-ready")
	l.now(owner, "terminating: true", "terminating")
	l.asked("ter")
	l.because("ter", explain.CauseOwnerRemoved, owner+" would have won", "terminating")
	l.now(other, "-", gone)
	l.asked("out")
	l.because("out", explain.CauseAsDesigned) // another pod than the owner has left
	l.now(owner, "-", gone)
	_, rec := l.ask("own-2", completionsPath, l.completion(words("own", promptTokens), 1))
	report := l.because("own-2", explain.CauseOwnerRemoved, owner+", which had the prefix, is no longer in the pool")
	if e := report.Notes[0].Evidence; len(e) != 1 || e[0].RequestID != "own" {
		t.Errorf("evidence %+v for %s", e, rec.RequestID)
	}
}
