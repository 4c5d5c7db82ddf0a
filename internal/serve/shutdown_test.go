package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/sim"
)

// filed reads the records of a directory, by request ID; each stands there once.
func filed(t *testing.T, dir string) map[string]*explain.Record {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	records := map[string]*explain.Record{}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := record.NewReader(bytes.NewReader(raw)); ; {
			rec, err := lines.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if records[rec.RequestID] != nil {
				t.Errorf("%s stands in the files twice", rec.RequestID)
			}
			records[rec.RequestID] = rec
		}
	}
	return records
}

// over waits until the server has ended.
func (r *rig) over() {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-r.ctx.Done():
		r.t.Fatal("the server did not end in time")
	}
	if r.err != nil {
		r.t.Errorf("the server ended with: %v", r.err)
	}
}

// unready waits until the health listener says so.
func (r *rig) unready() {
	r.t.Helper()
	r.until("readiness is off", func() bool {
		status, _ := r.fetch("http://" + r.at.Health + "/readyz")
		return status == http.StatusServiceUnavailable
	})
}

func TestShutdownLetsRequestsFinish(t *testing.T) {
	opts := serveOptions(2)
	opts.RecordDir = t.TempDir()
	r := start(t, opts)
	if status, _ := r.fetch("http://" + r.at.Health + "/readyz"); status != http.StatusOK {
		t.Fatalf("readyz says %d", status)
	}
	r.ask("before", completionsPath, r.completion(words("b", 64), 1))
	r.hold(sim.Channels{Answers: true})
	running := r.crowd("running", 3, func(i int) object { return r.completion(words(fmt.Sprint(i), 64), 1) })
	r.inFlight(3)

	r.stop()
	r.unready()
	if l := r.ledger(); l.Open != 3 {
		t.Errorf("not ready, and of 3 requests %d run", l.Open)
	}
	if status, _ := r.fetch("http://" + r.at.Health + "/healthz"); status != http.StatusOK {
		t.Errorf("healthz says %d while requests finish", status)
	}
	r.refuses(r.at.Gateway)
	r.release()
	running.allWell(t)
	r.over()

	records := filed(t, opts.RecordDir)
	if len(records) != 4 {
		t.Errorf("%d records were written, want 4", len(records))
	}
	for id, rec := range records {
		if rec.Outcome.State != explain.OutcomeDone || rec.Outcome.Status != 200 || rec.Outcome.Error != "" {
			t.Errorf("%s was written as %+v", id, rec.Outcome)
		}
		replayed(t, rec)
	}
}

// refuses waits until nobody can connect to a listener any more.
func (r *rig) refuses(address string) {
	r.t.Helper()
	r.until("new connections are refused", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

// A balancer needs a moment to hear that the picker is not ready.
func TestShutdownGoesOnServingWhileClientsAreThere(t *testing.T) {
	opts := serveOptions(2)
	opts.quiet = patience
	r := start(t, opts)
	r.ask("before", completionsPath, r.completion(words("b", 64), 1)) // leaves its connection open
	r.stop()
	r.unready()
	fresh := &http.Transport{}
	r.client.Transport, fresh = fresh, r.client.Transport.(*http.Transport)
	r.ask("after", completionsPath, r.completion(words("a", 64), 1))
	r.client.CloseIdleConnections()
	fresh.CloseIdleConnections()
	r.over()
}

func TestShutdownCutsWhatOutlastsTheDrainTime(t *testing.T) {
	opts := serveOptions(2)
	opts.RecordDir = t.TempDir()
	opts.Linger, opts.Drain = time.Millisecond, 50*time.Millisecond
	r := start(t, opts)
	r.hold(sim.Channels{Answers: true})
	running := r.crowd("endless", 2, func(i int) object { return r.completion(words(fmt.Sprint(i), 64), 1) })
	r.inFlight(2)
	r.stop()
	r.over()
	running.wg.Wait()
	for i, a := range running.answers {
		if a.err == nil && a.status == http.StatusOK {
			t.Errorf("request %d has an answer: %s", i, a.body)
		}
	}
	if n := r.server.picker.Open(); n != 0 {
		t.Errorf("%d picks are open after the end", n)
	}
	records := filed(t, opts.RecordDir)
	if len(records) != 2 {
		t.Errorf("%d records were written, want 2", len(records))
	}
	for id, rec := range records {
		if rec.Outcome.State != explain.OutcomeUnknown {
			t.Errorf("%s was written as %+v; nobody knows how it would have ended", id, rec.Outcome)
		}
		replayed(t, rec)
	}
}

// sums is a summary of the built-in traffic, by the names of its lines.
type sums map[string]string

func readSums(text string) sums {
	s := sums{}
	last := ""
	for line := range strings.Lines(text) {
		name, value := strings.TrimSpace(line[:min(15, len(line))]), strings.TrimSpace(line[min(15, len(line)):])
		if name == "" {
			name = last + ", then"
		}
		s[name], last = value, name
	}
	return s
}

func TestBuiltInConversationsEndWithoutErrors(t *testing.T) {
	const requests = 200
	opts := serveOptions(4)
	load, err := ParseLoad("8", requests, 1)
	if err != nil {
		t.Fatal(err)
	}
	var summary, progress strings.Builder
	load.Summary, load.Progress = &summary, &progress
	opts.Load = load
	opts.RecordDir = t.TempDir()
	server, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := server.Run(ctx); err != nil { // ends by itself, with the traffic
		t.Fatal(err)
	}
	got := readSums(summary.String())
	for name, want := range map[string]string{
		"requests": fmt.Sprintf("%d in ", requests), "errors": "0", "refused": "0 decisions", // a busy machine may relax some
		"replays": fmt.Sprintf("identical, %d of %[1]d decisions", requests), "ledger": "0 in flight",
	} {
		if !strings.HasPrefix(got[name], want) {
			t.Errorf("%s %q, want %q:\n%s", name, got[name], want, summary.String())
		}
	}
	for id, rec := range filed(t, opts.RecordDir) {
		if rec.Outcome.State != explain.OutcomeDone || rec.Outcome.CachedTokens == nil {
			t.Errorf("%s was written as %+v", id, rec.Outcome)
		}
	}
}
