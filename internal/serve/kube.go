package serve

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/pool"
)

// Kube is a cluster whose pools are served.
type Kube struct {
	Cluster *kube.Cluster
	Pools   []kube.Name
	// ConfigMap is the one that the flag names; zero = the first pool's annotation does.
	ConfigMap kube.Name
	// Settings are what was read at the start. They are not looked at when there is a
	// ConfigFile, which goes before what an annotation names.
	Settings   kube.SettingsMap
	ConfigFile bool
}

// kubeFleet is the discovery in a cluster.
type kubeFleet struct {
	opts    *Kube
	watch   *kube.Watch
	events  *kube.Events
	log     *slog.Logger
	set     func([]pool.Member) error
	names   func(*kube.State) []conflict // takes what is said of the models
	check   func(config.Config) error    // of a configuration that may be in force after a restart
	inbound bool                         // engines may connect for their KV events
	synced  chan struct{}                // closed when all was read once
	once    sync.Once
	crowd   int                // endpoints at the last update
	bad     map[[2]string]bool // settings of pods that were said to be wrong
	faults  map[faultKey]bool  // that were said

	troubles troubles

	mu        sync.Mutex
	state     *kube.State
	odd       map[string][]kube.Fault // what is in bad, by pool
	conflicts []conflict
	taken     []pool.Member
	changed   bool             // the settings are not those of the start
	last      kube.SettingsMap // that were compared
}

// buildKube makes the discovery in a cluster, if there is one.
func (s *Server) buildKube() error {
	o := s.opts.Kube
	if o == nil {
		return nil
	}
	k := &kubeFleet{
		opts: o, log: s.log, synced: make(chan struct{}), events: o.Cluster.Events(s.log), bad: map[[2]string]bool{}, state: &kube.State{},
		set: s.takePods, inbound: s.feeds == nil || s.listeners.events != nil,
		names: s.takeNames(),
		check: func(c config.Config) error { return c.Validate(s.opts.Custom) },
	}
	k.watch = o.Cluster.Watch(kube.WatchConfig{Pools: o.Pools, Settings: o.ConfigMap, Logger: s.log, Update: k.update})
	s.kube, s.health.missing = k, k.missing
	return errors.Join(s.registerKube(), s.registerNames())
}

// takePods changes the pool. A pod is as many endpoints as it has ports.
func (s *Server) takePods(members []pool.Member) error {
	if err := s.pool.Set(members); err != nil {
		return err
	}
	s.watcher.SetTargets(s.pool.Targets())
	return nil
}

// run follows the cluster until ctx ends.
func (k *kubeFleet) run(ctx context.Context) error {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { _ = k.events.Run(ctx) }) // logs and counts its problems itself
	return k.watch.Run(ctx)
}

// update takes what is known of the cluster.
func (k *kubeFleet) update(s *kube.State) {
	members, bad, odd := slices.Clone(s.Members), map[[2]string]bool{}, map[string][]kube.Fault{}
	for i := range members {
		k.settle(&members[i], bad, odd)
	}
	k.tellFaults(s)
	k.bad = bad // what has gone is forgotten
	if n := len(members); n > pool.MaxEndpoints {
		members = members[:pool.MaxEndpoints]
		if k.crowd <= pool.MaxEndpoints {
			k.log.Error("too many endpoints, the last by name are left out", slog.Int(logkey.Endpoints, n), slog.Int(logkey.Most, pool.MaxEndpoints))
		}
	}
	k.crowd = len(s.Members)
	k.mu.Lock()
	before := k.state
	k.state = s
	same := before.Pools != nil && reflect.DeepEqual(k.taken, members)
	k.taken, k.odd = members, odd
	k.mu.Unlock()
	if !same {
		if err := k.set(members); err != nil {
			k.log.Error("pods not taken over, the last ones stand", slog.String(logkey.Error, err.Error()))
		}
	}
	k.tellPools(before, s)
	if k.names != nil {
		conflicts := k.names(s)
		k.mu.Lock()
		k.conflicts = conflicts
		k.mu.Unlock()
	}
	if s.Synced {
		k.compareSettings(s)
		k.once.Do(func() { close(k.synced) })
	}
}

// settle leaves out what a pod's annotations say in a way that can't be, and notes it
// in bad and by pool.
func (k *kubeFleet) settle(m *pool.Member, bad map[[2]string]bool, odd map[string][]kube.Fault) {
	sources, events := checkSources(m), errors.Join(checkEvents(m), checkMembers([]pool.Member{*m}, k.inbound))
	if sources != nil {
		m.Engine, m.MaxRunning, m.GPUURL = "", 0, ""
	}
	if events != nil {
		m.Events, m.Replay = "", ""
	}
	err := errors.Join(sources, events, kube.CheckDrain(m.Annotations))
	if err == nil {
		return
	}
	key := [2]string{m.Name, err.Error()}
	if !k.bad[key] && !bad[key] {
		k.log.Warn("annotations eppctl.dev/… of a pod are wrong, and not followed", slog.String(logkey.Pod, m.Name), slog.String(logkey.Error, err.Error()))
	}
	if !bad[key] && len(odd[m.Pool]) < maxNamed { // no more are named
		odd[m.Pool] = append(odd[m.Pool], kube.Fault{Pod: m.Name, What: "annotations eppctl.dev/… are not followed: " + err.Error()})
	}
	bad[key] = true
}

// tellPools says which pools have come and gone.
func (k *kubeFleet) tellPools(before, now *kube.State) {
	for i, p := range now.Pools {
		was := i < len(before.Pools) && before.Pools[i].Pool != nil
		switch is := p.Pool != nil; {
		case is && !was:
			k.log.Info("pool found", slog.String(logkey.Pool, p.Name.String()), slog.String(logkey.APIVersion, p.Pool.APIVersion), slog.Any(logkey.Selector, p.Pool.Spec.Selector.MatchLabels))
			if len(p.Pool.Spec.Selector.MatchLabels) == 0 {
				k.log.Warn("the pool's selector has no labels, and selects no pod", slog.String(logkey.Pool, p.Name.String()))
			}
		case was && !is:
			k.log.Warn("pool deleted: its endpoints leave, requests for them are answered 503", slog.String(logkey.Pool, p.Name.String()))
		}
	}
}

// await waits until all was read once. What is missing is said as it goes on.
func (k *kubeFleet) await(ctx, work context.Context) {
	pause := 3 * time.Second
	wait := time.NewTimer(pause)
	defer wait.Stop()
	for {
		select {
		case <-k.synced:
			return
		case <-ctx.Done():
			return
		case <-work.Done():
			return
		case <-wait.C:
			k.log.Warn("not ready", slog.String(logkey.Reason, k.missing()))
			pause = min(4*pause, time.Hour)
			wait.Reset(pause)
		}
	}
}

// missing is what the picker waits for.
func (k *kubeFleet) missing() string {
	k.mu.Lock()
	s := k.state
	k.mu.Unlock()
	if s.Synced {
		return "the pods are looked at for the first time"
	}
	if problems, _ := k.watch.Problems(); len(problems) > 0 {
		return problems[0].What + ": " + problems[0].Reason
	}
	for _, p := range s.Pools {
		if p.Pool == nil {
			return "there is no InferencePool " + p.Name.String()
		}
	}
	return "the API server has not told of all pods yet"
}

// now is what is known.
func (k *kubeFleet) now() (s *kube.State, changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state, k.changed
}
