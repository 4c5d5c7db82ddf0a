package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/pool"
)

// The reasons of Kubernetes Events about a pool.
const (
	reasonNoEndpoint = "NoReadyEndpoint"
	reasonPort       = "PortMismatch"
	reasonBlockSize  = "BlockSizeMismatch"
	reasonConfig     = "ConfigChanged"
	reasonForbidden  = "ForbiddenWatch"
	reasonPorts      = "InvalidTargetPorts"
	reasonPods       = "InvalidPods"
	reasonCrowd      = "TooManyEndpoints"
	reasonName       = "NameConflict" // about the resource that loses
)

// emptyFor is how long a pool may be without a ready endpoint before that is told of.
const emptyFor = 10 * time.Second

func (s *Server) lookAtPools(ctx context.Context) error {
	return s.kube.look(ctx, s.pool.Views, s.opts.Config.BlockSize)
}

// look looks every second at what an operator of a pool should know.
func (k *kubeFleet) look(ctx context.Context, views func() []pool.View, blockSize int) error {
	empty := map[kube.Name]time.Time{}
	for (clock.Wall{}).Sleep(ctx, time.Second) == nil {
		s, _ := k.now()
		if !s.Synced {
			continue
		}
		of, r := byPool(s, views()), round{events: k.events}
		for _, p := range s.Pools {
			if p.Pool == nil {
				delete(empty, p.Name)
				continue
			}
			k.lookAt(&r, p, of[p.Name.String()], empty, blockSize)
		}
		if p := s.Pools[0]; p.Pool != nil {
			r.tell(p, reasonCrowd, tooMany(len(s.Members)))
		}
		k.tellForbidden(&r, s)
		k.tellConflicts()
		k.troubles.set(r.found)
	}
	return nil
}

// byPool sorts the endpoints by the pools that they are in.
func byPool(s *kube.State, views []pool.View) map[string][]*pool.View {
	in := make(map[string]string, len(s.Members))
	for _, m := range s.Members {
		in[m.Address] = m.Pool
	}
	of := map[string][]*pool.View{}
	for i := range views {
		if p := in[views[i].State.Endpoint]; !views[i].Departed {
			of[p] = append(of[p], &views[i])
		}
	}
	return of
}

func (k *kubeFleet) lookAt(r *round, p kube.PoolState, endpoints []*pool.View, empty map[kube.Name]time.Time, blockSize int) {
	since, was := empty[p.Name]
	switch {
	case p.Ready > 0 && len(endpoints) > 0:
		delete(empty, p.Name)
	case !was:
		empty[p.Name] = clock.Wall{}.Now()
	case clock.Wall{}.Now().Sub(since) >= emptyFor:
		r.tell(p, reasonNoEndpoint, noEndpoint(p))
	}
	r.tell(p, reasonPort, portMismatch(p, endpoints))
	r.tell(p, reasonBlockSize, sizeMismatch(endpoints, blockSize))
	k.mu.Lock()
	odd := k.odd[p.Name.String()]
	k.mu.Unlock()
	ports, pods := faultNotes(p, odd)
	r.tell(p, reasonPorts, ports)
	r.tell(p, reasonPods, pods)
}

// tooMany says that not all endpoints are served; "" = they are.
func tooMany(endpoints int) string {
	if endpoints <= pool.MaxEndpoints {
		return ""
	}
	return fmt.Sprintf("there are %d endpoints, and the last %d by name get nothing: a picker serves %d; narrow the selector, or make several pools", endpoints, endpoints-pool.MaxEndpoints, pool.MaxEndpoints)
}

func noEndpoint(p kube.PoolState) string {
	switch {
	case len(p.Pool.Spec.Selector.MatchLabels) == 0:
		return "no ready endpoint: the pool's selector has no labels, and selects no pod; requests are answered 503"
	case p.Pods == 0:
		return "no ready endpoint: no pod of the selector has an address, and requests are answered 503"
	case p.Ready == 0:
		return fmt.Sprintf("no ready endpoint: none of %d pods is ready, and requests are answered 503", p.Pods)
	}
	return fmt.Sprintf("no ready endpoint: none of %d ready pods serves on a target port: see their annotation llm-d.ai/active-ports", p.Ready)
}

// portMismatch says that pods are up, and nothing listens on the pool's ports; "" =
// not so.
func portMismatch(p kube.PoolState, endpoints []*pool.View) string {
	for _, v := range endpoints {
		if v.Scrapes < 3 || v.Failures < v.Scrapes || !strings.Contains(v.LastError, "refused") {
			return ""
		}
	}
	if len(endpoints) == 0 || p.Ready == 0 {
		return ""
	}
	var ports []string
	for _, port := range p.Pool.Spec.TargetPorts {
		ports = append(ports, fmt.Sprint(port.Number))
	}
	return fmt.Sprintf("%d pods are ready, and all refuse connections on the pool's target ports (%s): do the servers listen on other ports?", p.Ready, strings.Join(ports, ", "))
}

// sizeMismatch says that engines have blocks of a size that can't be compared with
// the picker's; "" = not so.
func sizeMismatch(endpoints []*pool.View, want int) string {
	n, size := 0, 0
	for _, v := range endpoints {
		for i := range v.Streams {
			if got := v.Streams[i].Mismatch; got != 0 {
				n, size = n+1, got
				break
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d endpoints have KV blocks of a size (%d tokens) that can't be compared with the picker's %d: set blockSize in its configuration to the engines'", n, len(endpoints), size, want)
}

// tellForbidden tells what may not be watched, to those who can change it.
func (k *kubeFleet) tellForbidden(r *round, s *kube.State) {
	problems, _ := k.watch.Problems()
	for _, problem := range problems {
		if p := s.Pools[0]; problem.Forbidden && p.Pool != nil {
			r.tell(p, reasonForbidden, problem.Reason)
		}
	}
}

// kubeStats are the figures of the watch.
type kubeStats struct {
	state    *kube.State
	contact  time.Time
	failing  int
	failures uint64
	events   kube.EventStats
	troubles int
	changed  bool
}

func (k *kubeFleet) stats() (s kubeStats) {
	s.state, s.changed = k.now()
	problems, failures := k.watch.Problems()
	s.contact, s.failing, s.failures, s.events = k.watch.LastContact(), len(problems), failures, k.events.Stats()
	s.troubles = len(k.troubles.list())
	return s
}

// registerKube adds how the watch fares to the metrics page.
func (s *Server) registerKube() error {
	if s.kube == nil {
		return nil
	}
	type figures = []figure[kubeStats]
	number := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	return register(s, s.kube.stats, figures{
		{"epp_kube_watch_failures_total", "Requests to the API server that failed, of those that keep pools and pods up to date.", func(k *kubeStats) float64 { return float64(k.failures) }},
		{"epp_kube_events_total", "Kubernetes Events that were written.", func(k *kubeStats) float64 { return float64(k.events.Written) }},
		{"epp_kube_events_dropped_total", "Kubernetes Events that could not be written.", func(k *kubeStats) float64 { return float64(k.events.Dropped) }},
	}, figures{
		{"epp_kube_synced", "1 once pools, pods and models were all read, 0 before.", func(k *kubeStats) float64 { return number(k.state.Synced) }},
		{"epp_kube_watches_failing", "Lists of objects that are not up to date now.", func(k *kubeStats) float64 { return float64(k.failing) }},
		{"epp_kube_troubles", "What an operator of the pools should know now, as the Events and /v1/config tell it.", func(k *kubeStats) float64 { return float64(k.troubles) }},
		{"epp_kube_last_contact_timestamp_seconds", "When the API server last sent something, in Unix time; 0 for never.", func(k *kubeStats) float64 {
			if k.contact.IsZero() {
				return 0
			}
			return float64(k.contact.UnixMilli()) / 1000
		}},
		{"epp_config_changed", "1 while the ConfigMap says something else than what is in force.", func(k *kubeStats) float64 { return number(k.changed) }},
	})
}

// shown is the cluster as /v1/config shows it.
func (k *kubeFleet) shown() any {
	s := k.stats()
	pools := []map[string]any{}
	for _, p := range s.state.Pools {
		pools = append(pools, map[string]any{"name": p.Name.String(), "found": p.Pool != nil, "pods": p.Pods, "ready": p.Ready})
	}
	out := map[string]any{"pools": pools, "synced": s.state.Synced, "configChanged": s.changed}
	if !s.contact.IsZero() {
		out["lastContact"] = s.contact.UTC().Format(time.RFC3339)
	}
	if name := s.state.Settings.Name; name != (kube.Name{}) {
		out["configMap"] = name.String()
	}
	problems, _ := k.watch.Problems()
	list := []map[string]any{}
	for _, p := range problems {
		list = append(list, map[string]any{"what": p.What, "reason": p.Reason, "since": p.Since.UTC().Format(time.RFC3339), "forbidden": p.Forbidden})
	}
	out["problems"] = list
	troubles := []map[string]any{}
	for _, t := range k.troubles.list() {
		troubles = append(troubles, map[string]any{"pool": t.pool.String(), "reason": t.reason, "note": t.note, "since": t.since.UTC().Format(time.RFC3339)})
	}
	out["troubles"] = troubles
	return out
}
