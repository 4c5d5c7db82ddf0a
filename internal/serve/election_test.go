package serve

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/sim"
	"github.com/eppctl/eppctl/internal/steering"
)

// vote is an election whose outcome a test sets.
type vote struct {
	mu      sync.Mutex
	leader  string
	changed func()
	over    chan struct{} // closed when it has ended
}

func (v *vote) Leading() bool { return v.Leader() == "me" }

func (v *vote) Leader() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.leader
}

func (v *vote) Run(ctx context.Context, changed func()) error {
	v.mu.Lock()
	v.changed = changed
	v.mu.Unlock()
	defer close(v.over)
	<-ctx.Done()
	v.elect("")
	return nil
}

func (v *vote) elect(leader string) {
	v.mu.Lock()
	changed := v.changed
	v.leader = leader
	v.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// startElected serves as one of several replicas, of which another leads.
func startElected(t *testing.T) (*rig, *vote) {
	v := &vote{leader: "other", over: make(chan struct{})}
	opts := serveOptions(2)
	opts.Election, opts.Replica = v, "me"
	return start(t, opts), v
}

func TestStandbyFollowsAndDoesNotPick(t *testing.T) {
	r, v := startElected(t)
	health, envoy := r.grpc(r.at.Health, insecure.NewCredentials()), r.grpc(r.at.Extproc, anyTLS())
	expect := func(status int, text, grpc, metric, role string) {
		t.Helper()
		if got, body := r.fetch("http://" + r.at.Health + "/readyz"); got != status || strings.TrimSpace(body) != text {
			t.Errorf("/readyz: %d %q", got, body)
		}
		for _, conn := range []string{r.serving(health, ""), r.serving(health, "inference-extension"), r.serving(envoy, "readiness")} {
			if conn != grpc {
				t.Errorf("gRPC health: %s", conn)
			}
		}
		if got := r.ours("epp_leader"); got != metric {
			t.Errorf("epp_leader %s", got)
		}
		r.until("the snapshot tells", func() bool {
			s, err := r.admin.Snapshot(r.ctx)
			return err == nil && s.Router.Replica == "me" && s.Router.Role == role
		})
	}
	expect(503, "standby: other leads", "NOT_SERVING", "0", explain.RoleStandby)
	if got, _ := r.fetch("http://" + r.at.Health + "/healthz"); got != http.StatusOK {
		t.Errorf("/healthz: %d", got)
	}
	if got := r.serving(health, liveness); got != "SERVING" {
		t.Errorf("liveness: %s", got)
	}
	r.reported() // it knows the pods all the same
	if a := r.send(r.ctx, "g", completionsPath, r.completion("hello", 1)); a.status != 503 || a.code() != "not_leader" || !strings.Contains(a.body, "standby: other leads") {
		t.Errorf("by the gateway: %d %s", a.status, a.body)
	}
	refusedByExtproc(t, r.begin(envoy, "e"), r.body())

	v.elect("me")
	expect(200, "", "SERVING", "1", explain.RoleLeader)
	r.ask("first", completionsPath, r.completion("hello", 1))
	r.begin(envoy, "second").finish(r.body())
	if n := len(r.decisions()); n != 2 {
		t.Errorf("%d decisions, those of the standby are none", n)
	}
}

// refusedByExtproc sends the body and fails unless the standby says that it is one.
func refusedByExtproc(t *testing.T, e *envoy, body string) {
	t.Helper()
	e.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{
		RequestBody: &extproc.HttpBody{Body: []byte(body), EndOfStream: true},
	}})
	m, err := e.stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	reason := ""
	for _, h := range m.GetImmediateResponse().GetHeaders().GetSetHeaders() {
		if h.GetHeader().GetKey() == steering.Dropped {
			reason = string(h.GetHeader().GetRawValue())
		}
	}
	if m.GetImmediateResponse().GetStatus().GetCode() != 503 || reason != "rejected-not-leader" {
		t.Errorf("by ext_proc: %v", m)
	}
	if err := e.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
}

func TestRequestsOutlastTheLead(t *testing.T) {
	r, v := startElected(t)
	v.elect("me")
	r.hold(sim.Channels{Answers: true})
	running := r.crowd("c", 5, func(int) object { return r.completion("hello", 1) })
	r.inFlight(5)
	v.elect("other")
	if a := r.send(r.ctx, "late", completionsPath, r.completion("hello", 1)); a.status != 503 {
		t.Errorf("after the lead: %d %s", a.status, a.body)
	}
	r.release()
	running.allWell(t)
	r.inFlight(0)
}

// A leader that is told to end gives up the lead at once, though it lets requests
// finish.
func TestALeaderThatEndsPicksNoMore(t *testing.T) {
	r, v := startElected(t)
	v.elect("me")
	r.hold(sim.Channels{Answers: true})
	running := r.crowd("c", 1, func(int) object { return r.completion("hello", 1) })
	r.inFlight(1)
	r.stop()
	select {
	case <-v.over:
	case <-r.ctx.Done():
		t.Fatal("the candidate did not retire")
	}
	if a := r.send(r.ctx, "late", completionsPath, r.completion("hello", 1)); a.status != 503 {
		t.Errorf("after the signal: %d %s", a.status, a.body)
	}
	r.release()
	running.allWell(t)
	r.over()
}
