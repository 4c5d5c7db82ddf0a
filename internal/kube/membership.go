package kube

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eppctl/eppctl/internal/pool"
)

// compare is the order of objects: by namespace and name, then by UID, for there may be
// one of the same name in each of two groups.
func compare[T metav1.Object](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetUID(), b.GetUID()))
}

// membership makes endpoints of pods: each address is one pod's and one pool's.
type membership struct {
	namespaces map[string]bool
	at         map[string]claim // by address
}

// claim is that of a pod on an address.
type claim struct {
	pod    *podFacts
	member pool.Member
}

// add adds the pods of a pool.
func (m *membership) add(p *poolWatch) PoolState {
	s := PoolState{Name: p.name, Pool: p.pool()}
	if s.Pool == nil {
		return s
	}
	for _, pod := range p.members(s.Pool) {
		if !pod.usable() {
			continue
		}
		s.Pods++
		if pod.ready && !pod.terminating {
			s.Ready++
		}
		for _, port := range pod.activePorts(s.Pool.Spec.TargetPorts) {
			member := pod.member(m.name(pod), p.name, port)
			before, taken := m.at[member.Address]
			if !taken || pod.uid != before.pod.uid && pod.newer(before.pod) {
				m.at[member.Address] = claim{pod, member}
			}
		}
	}
	return s
}

// name is the pod's name, with its namespace where there are several.
func (m *membership) name(p *podFacts) string {
	if len(m.namespaces) > 1 {
		return p.name.String()
	}
	return p.name.Name
}

func (m *membership) members() []pool.Member {
	members := make([]pool.Member, 0, len(m.at))
	for h := range maps.Values(m.at) {
		members = append(members, h.member)
	}
	slices.SortFunc(members, func(a, b pool.Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address))
	})
	return members
}
