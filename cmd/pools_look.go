package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eppctl/eppctl/internal/kube"
)

// The kinds of documents about pools.
const (
	kindPoolList = "PoolList"
	kindPool     = "Pool"
)

// poolList is the JSON document of the list.
type poolList struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Items      []poolItem `json:"items"`
}

// poolLine is one of the list as a line.
type poolLine struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	poolItem
}

// poolItem is an InferencePool, and who picks for it. What is null may not be read.
type poolItem struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	API       string    `json:"api"` // group and version that it was read by
	Created   time.Time `json:"created"`
	Ports     []int     `json:"ports"` // each an endpoint of its own on every pod
	// Picker is whose picker it has: eppctl, llm-d or unknown.
	Picker string `json:"picker"`
	// Version is that of the picker: of its image's tag, of its label, as it says itself, or
	// the image's digest; "" when none tells. Of different replicas it is all, with commas.
	Version       string `json:"version"`
	Service       string `json:"service"` // of the picker
	Replicas      *int   `json:"replicas"`
	ReadyReplicas *int   `json:"readyReplicas"`
	Pods          *int   `json:"pods"`
	ReadyPods     *int   `json:"readyPods"`
	// Health is ok, degraded, down, or unknown when what is known is well.
	Health string   `json:"health"`
	Why    []string `json:"why"` // it is not ok
	// Asked: all replicas of the picker that run said how they fare. llm-d's can't.
	Asked bool `json:"asked"`
	// Troubles are what they say is wrong.
	Troubles []poolTrouble `json:"troubles"`
}

// The states of a pool.
const (
	healthOK       = "ok"
	healthUnknown  = "unknown"
	healthDegraded = "degraded"
	healthDown     = "down"
)

// maxPoolsAtOnce bounds the pools that are looked at at the same time.
const maxPoolsAtOnce = 8

// poolsLook is a look at the pools of a cluster.
type poolsLook struct {
	cluster             *kube.Cluster
	namespace, selector string // "" = all
	token               string // for pickers that want one
}

// pools lists the pools, each with its picker.
func (l *poolsLook) pools(ctx context.Context) ([]poolItem, error) {
	pools, err := l.cluster.Pools(ctx, l.namespace, l.selector)
	if err != nil {
		return nil, err
	}
	items := make([]poolItem, len(pools))
	var looks errgroup.Group
	looks.SetLimit(maxPoolsAtOnce)
	for i, pool := range pools {
		looks.Go(func() error {
			items[i] = l.pool(ctx, pool)
			return nil
		})
	}
	_ = looks.Wait() // what went wrong is in the items
	return items, nil
}

func (l *poolsLook) pool(ctx context.Context, pool *kube.InferencePool) poolItem {
	item := poolItem{
		Namespace: pool.Namespace, Name: pool.Name, API: pool.APIVersion, Created: pool.CreationTimestamp.UTC(), Ports: []int{},
		Picker: string(kube.KindUnknown), Service: pool.Spec.EndpointPickerRef.Name, Health: healthOK, Why: []string{}, Troubles: []poolTrouble{},
	}
	for _, port := range pool.Spec.TargetPorts {
		item.Ports = append(item.Ports, int(port.Number))
	}
	picker, err := l.cluster.PickerOf(ctx, pool)
	item.seePicker(picker, err)
	pods, err := l.cluster.PoolPods(ctx, pool)
	item.seePods(pods, err)
	if picker != nil && picker.Kind == kube.KindEppctl && len(picker.Running()) > 0 {
		troubles, versions, err := troublesOf(ctx, l.cluster, picker, l.token)
		item.seeTroubles(troubles, err)
		for i, pod := range picker.Pods {
			picker.Pods[i].Version = cmp.Or(versions[pod.Name], pod.Version)
		}
		item.Version = picker.Version()
	}
	return item
}

func (p *poolItem) seePicker(picker *kube.Picker, err error) {
	if err != nil {
		p.trouble(err)
		return
	}
	ready, all := picker.Ready(), len(picker.Pods)
	p.Picker, p.Version, p.Replicas, p.ReadyReplicas = string(picker.Kind), picker.Version(), &all, &ready
	standby := slices.ContainsFunc(picker.Pods, func(pod kube.PickerPod) bool { return pod.Elects })
	switch {
	case ready == 0:
		p.say(healthDown, fmt.Sprintf("no picker is ready: %s is %s", picker.Pods[0].Name, picker.Pods[0].State))
	case ready < all && !standby: // who stands by is not ready
		p.say(healthDegraded, fmt.Sprintf("%d of %d pickers are ready", ready, all))
	}
}

func (p *poolItem) seePods(pods []kube.PoolPod, err error) {
	if err != nil {
		p.trouble(err)
		return
	}
	ready, all := 0, len(pods)
	for _, pod := range pods {
		if pod.Ready {
			ready++
		}
	}
	p.Pods, p.ReadyPods = &all, &ready
	switch {
	case all == 0:
		p.say(healthDown, "it selects no pod")
	case ready == 0:
		p.say(healthDown, "no pod is ready")
	case ready < all:
		p.say(healthDegraded, fmt.Sprintf("%d of %d pods are ready", ready, all))
	}
}

// trouble is what ended a look: a pool without a picker is down; what may not be read
// is not known.
func (p *poolItem) trouble(err error) {
	health := healthUnknown
	if e, ok := errors.AsType[*kube.StepError](err); ok && e.Trouble == kube.Missing {
		health = healthDown
	}
	p.say(health, err.Error())
}

// say adds a reason; the worst that is said counts.
func (p *poolItem) say(health, why string) {
	grave := []string{healthOK, healthUnknown, healthDegraded, healthDown}
	if slices.Index(grave, health) > slices.Index(grave, p.Health) {
		p.Health = health
	}
	p.Why = append(p.Why, why)
}
