package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/patrol"
)

// maxForwards bounds the engines whose pages are read through the API server: each has
// a forward of its own.
const maxForwards = 64

// openPool looks at the picker of a pool in a cluster.
func (f *topFlags) openPool(ctx context.Context, s *cli.Streams) (*topSource, error) {
	replicas, err := f.in.find(ctx)
	if err != nil {
		return nil, err
	}
	var src *topSource
	if replicas.kind == kube.KindLLMD {
		src, err = f.patrolReplicas(ctx, s, replicas)
	} else {
		src, err = followReplicas(replicas)
	}
	if err != nil {
		replicas.close()
		return nil, err
	}
	fmt.Fprintln(s.Err, cli.Sanitize(replicas.told(replicas.followed(f.askAll), byForward)))
	if !f.askAll && replicas.several() {
		fmt.Fprintf(s.Err, "it is one of %d replicas, and tells of its own decisions; of all: eppctl top --once\n", len(replicas.picker.Running()))
	}
	src.replicas = replicas
	src.command = append([]string{"--pool", replicas.pool.String()}, f.in.cluster.repeated("namespace")...)
	return src, nil
}

// elsewhere looks in the current context's cluster, since nobody answers on this host;
// nil when there is nothing.
func (f *topFlags) elsewhere(ctx context.Context, s *cli.Streams) *topSource {
	inTime, cancel := context.WithTimeout(ctx, unaskedTimeout)
	defer cancel()
	src, err := f.openPool(inTime, s)
	if _, none := errors.AsType[*kube.NoConfigError](err); err != nil && !none {
		fmt.Fprintln(s.Err, cli.Sanitize("no picker at "+admin.DefaultServer+" yet, nor in a cluster: "+err.Error()))
	}
	return src
}

// followed are the replicas that are shown: of ours the best one on a dashboard, for
// each tells of itself, and all when they are asked once; of llm-d's all, whose counts
// are added up.
func (r *replicas) followed(all bool) []kube.PickerPod {
	running := r.picker.Running()
	if r.kind == kube.KindEppctl && !all {
		return running[:1]
	}
	return running
}

// followReplicas follows the best replica, whichever it is at the time.
func followReplicas(r *replicas) (*topSource, error) {
	client, err := r.client(r.service, r.picker.Running()[0])
	if err != nil {
		return nil, err
	}
	return &topSource{source: &liveSource{client}, server: client.Server(), done: func() { client.Close(); r.close() }}, nil
}

// patrolReplicas looks at the pages of llm-d's picker, and at those of the pool's pods.
func (f *topFlags) patrolReplicas(ctx context.Context, s *cli.Streams, replicas *replicas) (*topSource, error) {
	cfg := patrol.Config{Clock: clock.Wall{}, Transport: replicas.transport}
	var err error
	if cfg.Token, err = readToken("token-file", f.tokenFile); err != nil {
		return nil, err
	}
	cfg.Find = func(ctx context.Context) (patrol.Pages, error) {
		if err := replicas.again(ctx); err != nil {
			return patrol.Pages{}, err
		}
		return replicas.patrolled(ctx)
	}
	if cfg.Pages, err = replicas.patrolled(ctx); err != nil {
		warner(s)(fmt.Sprintf("the engines are left out: %v", err))
	}
	if cfg.Left > 0 {
		warner(s)(fmt.Sprintf("the pages of %d engines are read through the API server, and those of %d more are left out", len(cfg.Engines), cfg.Left))
	}
	p := patrol.New(cfg)
	return &topSource{source: &patrolSource{patrol: p}, server: p.Server(), from: explain.SourceMetrics, done: func() { p.Close(); replicas.close() }}, nil
}

// patrolled are the pages of the replicas that run now, and of the engines there are
// now. When these are not known the error says why, and the pages are of the replicas.
func (r *replicas) patrolled(ctx context.Context) (patrol.Pages, error) {
	pages := patrol.Pages{Pickers: r.pages()}
	if len(pages.Pickers) == 1 { // another may come in its place
		pages.Pickers[0] = address(r.service, r.picker.Running()[0].MetricsPort) + "/metrics"
	}
	engines, err := r.engines(ctx)
	looked := min(len(engines), maxForwards)
	pages.Engines, pages.Left = engines[:looked], len(engines)-looked
	return pages, err
}

// engines are the pods of the pool, each with its ports, by name.
func (r *replicas) engines(ctx context.Context) ([]patrol.Engine, error) {
	pods, err := r.cluster.PoolPods(ctx, r.picker.Of)
	if err != nil {
		return nil, err
	}
	ports := r.picker.Of.Spec.TargetPorts
	var engines []patrol.Engine
	for _, pod := range pods {
		for i, port := range ports {
			name := pod.Name
			if len(ports) > 1 {
				name = fmt.Sprintf("%s-rank-%d", pod.Name, i) // as llm-d's picker calls them
			}
			engines = append(engines, patrol.Engine{Name: name, URL: address(pod.Name, int(port.Number)) + "/metrics"})
		}
	}
	return engines, nil
}
