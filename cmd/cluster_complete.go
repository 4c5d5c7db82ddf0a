package cmd

import (
	"context"

	"github.com/spf13/cobra"

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

// offer asks the cluster for names, within the time that a completion has.
func (f *clusterFlags) offer(c *cobra.Command, list func(*kube.Cluster, context.Context) ([]string, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completeTimeout)
	defer cancel()
	cluster, err := f.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, err := list(cluster, ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return printable(names), cobra.ShellCompDirectiveNoFileComp
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
