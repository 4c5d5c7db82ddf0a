package kube

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/eppctl/eppctl/internal/logkey"
)

// right is a verb that the picker uses.
type right struct{ group, resource, name, verb string }

// rights are those that a watch uses in a namespace.
func (w *Watch) rights(namespace string) (rights []right) {
	add := func(group, resource, name string, verbs ...string) {
		for _, verb := range verbs {
			rights = append(rights, right{group, resource, name, verb})
		}
	}
	add("", "pods", "", "list", "watch")
	for _, p := range w.cfg.Pools {
		if p.Namespace != namespace {
			continue
		}
		add(PoolV1.Group, "inferencepools", p.Name, "get", "list", "watch")
	}
	add(InferenceX.Group, "inferencemodels", "", "list", "watch")
	add(InferenceX.Group, "inferencemodelrewrites", "", "list", "watch")
	add(LLMD.Group, "inferencemodelrewrites", "", "list", "watch")
	if w.cfg.Settings.Namespace == namespace {
		add("", "configmaps", w.cfg.Settings.Name, "get", "list", "watch")
	}
	add("", "events", "", "create", "patch")
	return rights
}

// checkRights says which rights are missing, also those that are used only at times:
// a list when the API server can't stream it, a patch when an event comes again.
func (w *Watch) checkRights(ctx context.Context) {
	namespaces := map[string]bool{}
	for _, p := range w.cfg.Pools {
		namespaces[p.Namespace] = true
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		w.checkNamespace(ctx, namespace)
	}
}

// checkNamespace is silent when the server does not tell all rules.
func (w *Watch) checkNamespace(ctx context.Context, namespace string) {
	client, err := w.cluster.client(authorizationv1.SchemeGroupVersion)
	if err != nil {
		return // the watch says so
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	err = client.Post().Resource("selfsubjectrulesreviews").Body(review).Do(ctx).Into(review)
	if err != nil || review.Status.Incomplete || len(review.Status.ResourceRules) == 0 {
		return
	}
	for _, r := range w.rights(namespace) {
		if !allowed(review.Status.ResourceRules, r) {
			w.cfg.Logger.Warn("a right is missing: give the picker's ServiceAccount the Role of 'eppctl manifests'",
				slog.String(logkey.Right, fmt.Sprintf("%s %s in namespace %q", r.verb, resourceName(r.group, r.resource), namespace)))
		}
	}
}

func allowed(rules []authorizationv1.ResourceRule, r right) bool {
	has := func(list []string, want string) bool {
		return slices.Contains(list, want) || slices.Contains(list, "*")
	}
	return slices.ContainsFunc(rules, func(rule authorizationv1.ResourceRule) bool {
		return has(rule.APIGroups, r.group) && has(rule.Resources, r.resource) && has(rule.Verbs, r.verb) &&
			(len(rule.ResourceNames) == 0 || r.name != "" && slices.Contains(rule.ResourceNames, r.name))
	})
}

// resourceName is a resource with its group.
func resourceName(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}
