package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// A replica is one of several pickers of a pool.
type replica struct {
	name    string
	picker  *picker
	gateway *gateway
}

// A pick is one that a replica made, between two times.
type pick struct {
	by         *replica
	sent, done time.Time
}

// A ballot is all picks of all replicas.
type ballot struct {
	mu    sync.Mutex
	picks []pick
}

// ask asks a replica once, and takes down what it picked.
func (b *ballot) ask(r *replica) bool {
	sent := time.Now()
	got := r.gateway.pick(context.Background(), &call{body: small})
	if got.err != nil || got.destination == "" {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.picks = append(b.picks, pick{r, sent, time.Now()})
	return true
}

// keepAsking asks a replica over and over until the returned function is called.
func (b *ballot) keepAsking(r *replica) (stop func()) {
	end := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for pauseOr(end, 5*time.Millisecond) {
			b.ask(r)
		}
	})
	return sync.OnceFunc(func() { close(end); asking.Wait() })
}

// first is the first pick of a replica that was sent after a time.
func (b *ballot) first(r *replica, after time.Time) (pick, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.picks, func(p pick) bool { return p.by == r && p.sent.After(after) })
	if i < 0 {
		return pick{}, false
	}
	return b.picks[i], true
}

// since are the replicas that picked what was sent after a time.
func (b *ballot) since(at time.Time) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	by := map[string]int{}
	for _, p := range b.picks {
		if p.sent.After(at) {
			by[p.by.name]++
		}
	}
	return by
}

// TestKubeLeader ends leaders in three ways. Another replica takes over in a bounded
// time, and no two pick at once.
func TestKubeLeader(t *testing.T) {
	k := buildKube(t, cluster.Start(t), 2, 1)
	k.cluster.Apply(manifests(t, poolName, "-n", k.cluster.Namespace, "-l", "app=engine", "--replicas", "3", "--leader-elect", "--only", "Role"))
	k.pod("one", 0)
	k.pod("two", 1)
	b := &ballot{}
	var replicas []*replica
	stop := map[*replica]func(){}
	for i := range 3 {
		r := &replica{name: fmt.Sprintf("picker-%d", i)}
		k.start("--leader-elect="+poolName+"-epp", "--replica", r.name, "--drain", "1s")
		r.picker, r.gateway = k.picker, k.gateway
		replicas = append(replicas, r)
		stop[r] = b.keepAsking(r)
		t.Cleanup(stop[r])
		until(t, "there is a leader", func() bool { _, there := b.first(replicas[0], time.Time{}); return there })
	}
	a := &succession{t: t, ballot: b, replicas: replicas}
	leader := a.leads(replicas[0])
	for _, r := range replicas {
		if want := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[r == leader]; a.readyz(r) != want {
			t.Errorf("/readyz of %s is %d, want %d", r.name, a.readyz(r), want)
		}
	}

	killed := leader
	stop[killed]()
	leader = a.after("a leader that is killed", 45*time.Second, func() { killed.picker.end(syscall.SIGKILL) })

	// One that stands still for a while does not know that its time is over.
	still := leader
	stop[still]()
	leader = a.after("a leader that stands still", 45*time.Second, func() { still.picker.signal(syscall.SIGSTOP) })
	answered := make(chan bool, 1)
	go func() { answered <- b.ask(still) }()
	still.picker.signal(syscall.SIGCONT)
	if <-answered {
		t.Errorf("%s picked again after %s had taken over", still.name, leader.name)
	}
	stop[still] = b.keepAsking(still)
	t.Cleanup(stop[still])
	a.leads(leader)

	leaving := leader
	leader = a.after("a leader that is told to end", 12*time.Second, func() { leaving.picker.signal(syscall.SIGTERM) }) // before its lease would be over
	if leader != still {
		t.Errorf("%s leads", leader.name)
	}
	stop[leaving]()
	stop[leader]()
}

// A succession is how one leader follows another.
type succession struct {
	t        *testing.T
	ballot   *ballot
	replicas []*replica
}

// after waits for the leader after the present one, whose end comes.
func (a *succession) after(end string, atMost time.Duration, come func()) *replica {
	a.t.Helper()
	before := time.Now()
	come()
	at := time.Now()
	var next pick
	for deadline := at.Add(atMost); next.by == nil; time.Sleep(5 * time.Millisecond) {
		for _, r := range a.replicas {
			// What the last one picked before its end is not meant.
			if p, ok := a.ballot.first(r, at); ok && !r.picker.gone() && !a.led(r, before) {
				next = p
			}
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("after %s nobody else picked for %s", end, atMost)
		}
	}
	a.t.Logf("after %s %s picked first, %s later", end, next.by.name, next.done.Sub(at).Round(time.Millisecond))
	return a.leads(next.by)
}

// led reports whether a replica made the last pick before a time.
func (a *succession) led(r *replica, before time.Time) bool {
	a.ballot.mu.Lock()
	defer a.ballot.mu.Unlock()
	last := -1
	for i, p := range a.ballot.picks {
		if p.sent.Before(before) {
			last = i
		}
	}
	return last >= 0 && a.ballot.picks[last].by == r
}

// leads wants a replica, and no other, to pick all of what comes next.
func (a *succession) leads(r *replica) *replica {
	a.t.Helper()
	from := time.Now()
	until(a.t, "the leader has picked for a while", func() bool { return a.ballot.since(from)[r.name] > 100 })
	if by := a.ballot.since(from); len(by) != 1 {
		a.t.Errorf("%s leads, and the picks are by %v", r.name, by)
	}
	return r
}

// readyz is the status of a replica's readiness.
func (a *succession) readyz(r *replica) int {
	a.t.Helper()
	res, err := http.Get("http://" + r.picker.at.Health + "/readyz")
	if err != nil {
		a.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}
