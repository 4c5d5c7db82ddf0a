package cmd

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube"
)

// completions are of the flags that name a part of a kubeconfig or of a cluster.
func (f *clusterFlags) completions(c *cobra.Command) {
	_ = c.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, _ := kube.Contexts(f.set.Kubeconfig) // nothing to offer is nothing to say
		return printable(names), cobra.ShellCompDirectiveNoFileComp
	})
	_ = c.RegisterFlagCompletionFunc("namespace", func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.offer(c, (*kube.Cluster).Namespaces)
	})
}

const (
	// completeTimeout bounds what a completion may take; it is silent on failure.
	completeTimeout = 2 * time.Second
	// askTimeout is what its requests have of that: what some replicas told until then is
	// offered.
	askTimeout = 1500 * time.Millisecond
)

// inTime is what is found in the time that a completion has; nothing when that is over.
// What can't be interrupted, as a program that gets credentials, ends with this one.
func inTime[T any](ctx context.Context, find func(context.Context) T) (found T) {
	over := time.NewTimer(completeTimeout)
	defer over.Stop()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	done := make(chan T, 1)
	go func() { done <- find(ctx) }()
	select {
	case found = <-done:
	case <-over.C:
	}
	return found
}

// offer asks the cluster for names.
func (f *clusterFlags) offer(c *cobra.Command, list func(*kube.Cluster, context.Context) ([]string, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	unattended := *f
	unattended.set.Unattended = true
	return inTime(c.Context(), func(ctx context.Context) []string {
		cluster, err := unattended.connect()
		if err != nil {
			return nil
		}
		names, err := list(cluster, ctx)
		if err != nil {
			return nil
		}
		return printable(names)
	}), cobra.ShellCompDirectiveNoFileComp
}

// askForCompletion asks the picker that is meant; nothing when it does not answer.
func askForCompletion[T any](ctx context.Context, s *cli.Streams, r router, ask func(context.Context, *pickers) T) T {
	r.quiet, r.in.cluster.set.Unattended = true, true
	return inTime(ctx, func(ctx context.Context) (answer T) {
		found, err := r.connect(ctx, s)
		if err != nil {
			return answer
		}
		defer found.close()
		return ask(ctx, found)
	})
}

// completePods offers the pods that the picker knows.
func completePods(ctx context.Context, s *cli.Streams, r router) ([]cobra.Completion, cobra.ShellCompDirective) {
	return askForCompletion(ctx, s, r, func(ctx context.Context, found *pickers) (names []string) {
		if len(found.clients) == 0 {
			return nil
		}
		pods, err := found.clients[0].Pods(ctx)
		if err != nil {
			return nil
		}
		for _, p := range pods.Items {
			names = append(names, p.Pod)
		}
		return printable(names)
	}), cobra.ShellCompDirectiveNoFileComp
}

// recentForCompletion are the newest decisions of all replicas.
func recentForCompletion(ctx context.Context, s *cli.Streams, r router, filter admin.Filter) []*explain.Record {
	return askForCompletion(ctx, s, r, func(ctx context.Context, found *pickers) []*explain.Record {
		lists := make([][]*explain.Record, len(found.clients))
		var asked sync.WaitGroup
		for i, client := range found.clients {
			asked.Go(func() {
				if list, err := client.Decisions(ctx, filter); err == nil {
					lists[i] = list.Items
				}
			})
		}
		asked.Wait()
		all := slices.Concat(lists...)
		slices.SortStableFunc(all, func(a, b *explain.Record) int { return b.Time.Compare(a.Time) })
		return all[:min(len(all), filter.Limit)]
	})
}

// printable takes out what a terminal would act upon.
func printable(names []string) []string {
	for i := range names {
		names[i] = cli.Sanitize(names[i])
	}
	return names
}

// completePool offers the pools: of the namespace by name, and all of the cluster with
// their namespace once there is a slash.
func (f *poolFlags) completePool(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.cluster.offer(c, func(cluster *kube.Cluster, ctx context.Context) ([]string, error) {
		pools, err := cluster.Pools(ctx, "", "")
		if err != nil {
			pools, err = cluster.Pools(ctx, cluster.Namespace, "")
		}
		var names []string
		for _, p := range pools {
			if p.Namespace == cluster.Namespace {
				names = append(names, p.Name)
			}
			if !cluster.NamespaceGiven {
				names = append(names, p.Namespace+"/"+p.Name)
			}
		}
		return names, err
	})
}
