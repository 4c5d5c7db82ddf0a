package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/playback"
	"github.com/eppctl/eppctl/internal/source"
	"github.com/eppctl/eppctl/tui"
)

// news follows a source until an update is as wanted.
func news(t *testing.T, src tui.Source, pace *tui.Pace, wanted func(tui.Update) bool) tui.Update {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got tui.Update
	found := false
	err := src.Follow(ctx, pace, func(u tui.Update) {
		if !found && wanted(u) {
			got, found = u, true
			cancel()
		}
	})
	if !found {
		t.Fatalf("nothing as wanted came: %v", err)
	}
	return got
}

// The demonstration is a picker with pods and traffic; when it ends, followers learn
// it, and one that only asks is told that nobody answers.
func TestDemoIsAPicker(t *testing.T) {
	demo, err := startDemo(t.Context(), &program{weights: map[string]float64{}})
	if err != nil {
		t.Fatal(err)
	}
	defer demo.close()
	var id string
	pace := tui.NewPace(tui.MinInterval)
	u := news(t, demo, pace, func(u tui.Update) bool {
		if len(u.Rows) > 0 {
			id = u.Rows[0].DecisionID
		}
		return id != "" && u.Snapshot != nil && u.Snapshot.Windows[0].Decisions > 0
	})
	if len(u.Snapshot.Pods) != demoPods || u.Snapshot.Source != explain.SourcePicker || u.Snapshot.Router.Server == "" {
		t.Errorf("snapshot %+v", u.Snapshot)
	}
	rec, err := demo.Decision(t.Context(), id)
	if err != nil || rec.DecisionID != id {
		t.Errorf("Decision(%s) = %v, %v", id, rec, err)
	}
	recent, err := demo.Recent(t.Context(), 3)
	if err != nil || len(recent) == 0 || len(recent) > 3 {
		t.Errorf("Recent: %d decisions, %v", len(recent), err)
	}

	client := demo.client
	go demo.stop()
	if err := demo.Follow(t.Context(), pace, func(tui.Update) {}); err == nil || !strings.Contains(err.Error(), "the simulation has ended") {
		t.Errorf("Follow after its end = %v", err)
	}
	gone := news(t, &liveSource{client}, pace, func(u tui.Update) bool { return u.Err != nil })
	if gone.Snapshot != nil || gone.Retry != firstRetry {
		t.Errorf("nobody answers, and the news are %+v", gone)
	}
}

// Another pace, and news wanted at once, begin a new stream.
func TestLivePace(t *testing.T) {
	demo, err := startDemo(t.Context(), &program{weights: map[string]float64{}})
	if err != nil {
		t.Fatal(err)
	}
	defer demo.close()
	pace := tui.NewPace(tui.MaxInterval)
	n := 0
	news(t, demo, pace, func(u tui.Update) bool {
		if u.Snapshot == nil {
			return false
		}
		if n++; n == 1 {
			pace.Hurry() // else the next one is a minute away
		}
		if n == 2 {
			pace.Set(tui.MinInterval)
		}
		return n == 4
	})
}

// Hours without a decision are not played, and can be stepped across.
func TestReplayLeavesOutLulls(t *testing.T) {
	begin := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	late := begin.Add(7 * time.Hour)
	recording := playback.New([]*explain.Record{{Time: begin}, {Time: begin.Add(time.Second)}, {Time: late}})
	src := &replaySource{recording: recording, from: begin, until: late, at: begin, speed: 60}
	src.advance(time.Second)
	if src.at != begin.Add(time.Minute) {
		t.Errorf("within a minute of a decision it goes to %v", src.at)
	}
	src.advance(time.Second)
	if src.at != late {
		t.Errorf("after more than a minute it goes to %v, want the next decision", src.at)
	}
	src.Step(-59)
	if src.at != late.Add(-59*time.Second) {
		t.Errorf("within a minute before a decision it goes back to %v", src.at)
	}
	src.Step(-1)
	if src.at != begin.Add(time.Minute+time.Second) {
		t.Errorf("a minute before a decision it goes back to %v", src.at)
	}
}

// full is a picker that as many follow as may.
type full struct{}

// RoundTrip implements [http.RoundTripper].
func (full) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := http.StatusOK, `{"apiVersion":"eppctl/v1","kind":"Snapshot","verdict":{"code":"ok"}}`
	if r.URL.Path == "/v1/stream" {
		status, body = http.StatusServiceUnavailable, `{"error":{"code":"`+admin.CodeTooManyReaders+`","message":"32 readers follow already"}}`
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Eppctl-Api": {admin.APIVersion}}, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// Who may not follow is shown the pods all the same, and not that nobody answers.
func TestOneReaderTooMany(t *testing.T) {
	client, err := admin.NewClient("http://picker.test", admin.ClientOptions{Transport: full{}})
	if err != nil {
		t.Fatal(err)
	}
	u := news(t, &liveSource{client}, tui.NewPace(tui.MinInterval), func(tui.Update) bool { return true })
	if u.Err != nil || u.Snapshot == nil || u.Snapshot.Verdict.Code != explain.VerdictOK {
		t.Fatalf("update %+v", u)
	}
	if got := strings.Join(u.Snapshot.Missing, "; "); got != "decisions: 32 readers follow already; close a dashboard" {
		t.Errorf("missing %q", got)
	}
}

func TestReplaySource(t *testing.T) {
	src, err := openReplay(t.Context(), "../testdata/decisions/fleet.jsonl", source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first := src.frame()
	if !first.Whole || first.Play == nil || !first.Play.At.Equal(src.from) || len(first.Rows) != 1 || len(first.Snapshot.Pods) == 0 {
		t.Errorf("the first frame is %+v", first)
	}
	src.Step(1)
	if f := src.frame(); f.Play.Speed != 0 || f.Play.At.Sub(src.from) != stepTime {
		t.Errorf("after a step %+v", f.Play)
	}
	src.Step(-5)
	if f := src.frame(); !f.Play.At.Equal(src.from) {
		t.Errorf("before the beginning: %+v", f.Play)
	}
	src.Play(1e6)
	src.advance(time.Second)
	end := src.frame()
	if !end.Play.At.Equal(src.until) || end.Play.Speed != 0 {
		t.Errorf("at the end %+v", end.Play)
	}
	src.Play(2)
	if f := src.frame(); !f.Play.At.Equal(src.from) || f.Play.Speed != 2 {
		t.Errorf("played again %+v", f.Play)
	}
	if rec, err := src.Decision(t.Context(), "nobody"); err != nil || rec.RequestID != "nobody-left" {
		t.Errorf("Decision(nobody) = %v, %v", rec, err)
	}
	if _, err := src.Decision(t.Context(), "zz"); err == nil {
		t.Error("a decision that is not there was found")
	}
}

// The printed documents can be read back; the report is a file of its own.
func TestTopPrints(t *testing.T) {
	out, _, status := runTest(t, "top", "--replay", "../testdata/decisions/fleet.jsonl", "-o", "json")
	var snap explain.Snapshot
	if err := json.Unmarshal([]byte(out), &snap); err != nil || status != cli.ExitOK || snap.Kind != explain.KindSnapshot || len(snap.Pods) != 4 {
		t.Errorf("status %d, %v, %s", status, err, out)
	}
	t.Chdir(t.TempDir())
	now := time.Date(2026, 11, 30, 14, 23, 7, 0, time.UTC)
	save := saveReport(func() time.Time { return now })
	path, err := save(&snap, []*explain.Record{{RequestID: "a"}, {RequestID: "b"}})
	if err != nil || filepath.Base(path) != "eppctl-report-20261130T142307Z.jsonl" {
		t.Fatalf("saved to %q: %v", path, err)
	}
	text, err := os.ReadFile(path)
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || len(lines) != 3 || !strings.Contains(lines[2], `"requestID":"b"`) {
		t.Errorf("the report is %q: %v", text, err)
	}
	if _, err := save(&snap, nil); err == nil {
		t.Error("a report was written over")
	}
}

func TestBrief(t *testing.T) {
	err := &admin.UnreachableError{Server: "http://a", Err: errors.New("connection refused")}
	if got := brief(err).Error(); got != "connection refused" {
		t.Errorf("brief = %q", got)
	}
}

func TestTopSaysTheWayOn(t *testing.T) {
	tests := []struct {
		name string
		why  error
		from string
		code int
		hint string
	}{
		{"nobody is there", &admin.UnreachableError{Server: "http://127.0.0.1:9091", Err: io.EOF}, explain.SourcePicker, cli.ExitUnreachable, "eppctl top --demo"},
		{"a token is missing", &admin.RequestError{
			FailureText: admin.FailureText{Code: admin.CodeUnauthorized, Message: "a bearer token is needed", Hint: "give --admin-token-file FILE"}, Status: http.StatusUnauthorized,
		}, explain.SourcePicker, cli.ExitUsage, "give --admin-token-file FILE"},
		{"the way to a pod ends", &admin.UnreachableError{Server: "http://epp:9091", Err: &kube.StepError{
			Step: "connect to port 9091 of pod prod/epp-0", Trouble: kube.Unreachable, Err: io.EOF, Hint: "see: kubectl describe pod epp-0",
		}}, explain.SourcePicker, cli.ExitUnreachable, "kubectl describe pod epp-0"},
		{"pages", io.EOF, explain.SourceMetrics, cli.ExitUnreachable, "the addresses of its metrics"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := topPrinter{from: tt.from, why: tt.why}
			if code, hint := p.wayOn(); code != tt.code || !strings.Contains(hint, tt.hint) {
				t.Errorf("wayOn() = %d, %q, want %d and %q", code, hint, tt.code, tt.hint)
			}
		})
	}
}
