package kube

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
)

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		name                           string
		groups, resources, verbs, only []string
		want                           bool
	}{
		{"the very right", []string{""}, []string{"pods"}, []string{"get", "list"}, nil, true},
		{"all of all", []string{"*"}, []string{"*"}, []string{"*"}, nil, true},
		{"another verb", []string{""}, []string{"pods"}, []string{"get"}, nil, false},
		{"another resource", []string{""}, []string{"pods/log"}, []string{"list"}, nil, false},
		{"another group", []string{"apps"}, []string{"pods"}, []string{"list"}, nil, false},
		{"for the name", []string{""}, []string{"pods"}, []string{"list"}, []string{"x", "a"}, true},
		{"for another name", []string{""}, []string{"pods"}, []string{"list"}, []string{"x"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := authorizationv1.ResourceRule{APIGroups: c.groups, Resources: c.resources, Verbs: c.verbs, ResourceNames: c.only}
			if got := allowed([]authorizationv1.ResourceRule{{}, rule}, right{"", "pods", "a", "list"}); got != c.want {
				t.Errorf("allowed %t", got)
			}
		})
	}
	t.Run("all names are wanted", func(t *testing.T) {
		rule := authorizationv1.ResourceRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}, ResourceNames: []string{"a"}}
		if allowed([]authorizationv1.ResourceRule{rule}, right{"", "pods", "", "list"}) {
			t.Error("a right for one name is none for all")
		}
	})
}
