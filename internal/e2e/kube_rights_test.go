package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// TestKubeRights runs a picker with the role of `eppctl manifests`, and then without
// each of its verbs, which the picker must miss and name.
func TestKubeRights(t *testing.T) {
	c := cluster.Start(t)
	args := []string{poolName, "-n", c.Namespace, "-l", "app=engine", "--replicas", "2", "--leader-elect", "--only"}
	c.Apply(manifests(t, append(args, "InferencePool,ServiceAccount,RoleBinding,ConfigMap")...))
	var role rbacv1.Role
	if err := yaml.UnmarshalStrict([]byte(manifests(t, append(args, "Role")...)), &role); err != nil {
		t.Fatal(err)
	}
	r := &rights{Cluster: c, account: poolName + "-epp", role: role}
	r.kubeconfig = c.Kubeconfig(c.Token(r.account))

	t.Run("all of it", func(t *testing.T) {
		r.grant(t, -1, "")
		p := r.run(t)
		until(t, "it says that the pool has no pod", func() bool {
			var events corev1.EventList
			c.Get(cluster.Ref{APIVersion: "v1", Kind: "Event"}, &events)
			return len(events.Items) > 0 || p.gone()
		})
		if out := p.output(); strings.Contains(out, "orbidden") || strings.Contains(out, "may not") || strings.Contains(out, "missing") || p.gone() {
			t.Errorf("with all rights it says\n%s", out)
		}
	})
	for i, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			what := verb + " " + strings.Join(rule.Resources, ",")
			t.Run("without "+what, func(t *testing.T) {
				if verb == "list" {
					// Servers before 1.34 do not stream lists.
					t.Setenv("KUBE_FEATURE_WatchListClient", "false")
				}
				if what == "create leases" {
					c.Delete(cluster.Ref{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: r.account}) // made by the first
				}
				r.grant(t, i, verb)
				p := r.run(t)
				named := func() bool {
					for line := range strings.Lines(p.output()) {
						// Its own words, or the API server's, which are quoted in JSON.
						if strings.Contains(line, what) || strings.Contains(line, fmt.Sprintf(`cannot %s resource \"%s\"`, verb, rule.Resources[0])) {
							return true
						}
					}
					return false
				}
				until(t, "the picker names what it may not do", func() bool { return named() || p.gone() })
				if !named() {
					t.Errorf("it ended without naming %s:\n%s", what, p.output())
				}
			})
		}
	}
}

// rights are those of a picker's account.
type rights struct {
	*cluster.Cluster
	account, kubeconfig string
	role                rbacv1.Role
}

// grant gives the account its role without a verb of a rule, and waits until it
// counts. −1 is the whole role.
func (r *rights) grant(t *testing.T, rule int, verb string) {
	t.Helper()
	role := r.role.DeepCopy()
	if rule >= 0 {
		verbs := &role.Rules[rule].Verbs
		*verbs = slices.DeleteFunc(*verbs, func(v string) bool { return v == verb })
		if len(*verbs) == 0 {
			role.Rules = slices.Delete(role.Rules, rule, rule+1)
		}
	}
	text, err := yaml.Marshal(role)
	if err != nil {
		t.Fatal(err)
	}
	r.Apply(string(text))
	for i, rule2 := range r.role.Rules {
		for _, v := range rule2.Verbs {
			do := authorizationv1.ResourceAttributes{Verb: v, Group: rule2.APIGroups[0], Resource: rule2.Resources[0]}
			if rule2.ResourceNames != nil {
				do.Name = rule2.ResourceNames[0]
			}
			want := i != rule || v != verb
			until(t, fmt.Sprintf("%s %s counts", v, do.Resource), func() bool { return r.May(r.account, do) == want })
		}
	}
}

// run starts a picker as the Deployment does.
func (r *rights) run(t *testing.T) *process {
	t.Helper()
	const anyPort = "127.0.0.1:0"
	return launch(t, "eppctl serve", nil, program(t), "serve", "--kubeconfig", r.kubeconfig,
		"--pool", r.Namespace+"/"+poolName, "--pool-config", r.account, "--leader-elect="+r.account, "--replica", "one",
		"--addr-file", filepath.Join(t.TempDir(), "addresses.json"), "--extproc-addr", anyPort, "--health-addr", anyPort,
		"--metrics-addr", anyPort, "--admin-addr", anyPort, "--gateway-addr", anyPort, "--log-level", "info")
}
