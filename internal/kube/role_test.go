package kube

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/eppctl/eppctl/internal/deploy"
)

// The Role of the manifests has the verbs that are used, and no other.
func TestShippedRole(t *testing.T) {
	chat, settings := Name{Namespace: "inference", Name: "chat"}, Name{Namespace: "inference", Name: "chat-epp"}
	w := &Watch{cfg: WatchConfig{Pools: []Name{chat}, Settings: settings}}
	used := w.rights("inference")
	for _, verb := range []string{"get", "list", "watch"} {
		used = append(used, right{InferenceX.Group, "inferencepools", "chat", verb}) // where v1 is not served
	}
	elects := append(slices.Clone(used),
		right{"coordination.k8s.io", "leases", "chat-epp", "get"},
		right{"coordination.k8s.io", "leases", "chat-epp", "update"},
		right{"coordination.k8s.io", "leases", "", "create"})
	for name, c := range map[string]struct {
		leaderElect bool
		want        []right
	}{
		"alone":           {false, used},
		"leader election": {true, elects},
	} {
		t.Run(name, func(t *testing.T) {
			granted := shippedRights(t, c.leaderElect)
			for _, r := range c.want {
				if !slices.Contains(granted, r) {
					t.Errorf("%+v is used and not granted", r)
				}
			}
			for _, r := range granted {
				if !slices.Contains(c.want, r) {
					t.Errorf("%+v is granted and not used", r)
				}
			}
		})
	}
}

// shippedRights are those that the manifests' Role grants.
func shippedRights(t *testing.T, leaderElect bool) (granted []right) {
	t.Helper()
	o := deploy.Default()
	o.Namespace, o.Pool, o.Selector = "inference", "chat", map[string]string{"app": "vllm"}
	o.LeaderElect, o.Only = leaderElect, []string{"Role"}
	files, err := o.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.Role
	if err := yaml.UnmarshalStrict([]byte(files[0].Text), &role); err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						granted = append(granted, right{group, resource, name, verb})
					}
				}
			}
		}
	}
	return granted
}
