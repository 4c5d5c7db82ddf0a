package kube

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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
	ports, fault := targetPorts(s.Pool.Spec.TargetPorts)
	s.fault("", fault)
	for _, pod := range p.members(s.Pool) {
		s.fault(m.name(pod), pod.fault)
		if !pod.usable() {
			continue
		}
		s.Pods++
		if pod.ready && !pod.terminating {
			s.Ready++
		}
		active, fault := pod.activePorts(ports)
		s.fault(m.name(pod), fault)
		for _, port := range active {
			member := pod.member(m.name(pod), p.name, port)
			before, taken := m.at[member.Address]
			if !taken || pod.uid != before.pod.uid && pod.newer(before.pod) {
				m.at[member.Address] = claim{pod, member}
			}
		}
	}
	s.settleFaults()
	return s
}

// maxPorts is how many ports a pool may have, as its schema has it.
const maxPorts = 8

// targetPorts are the ports of a pool, each once.
func targetPorts(of []Port) (ports []int32, fault string) {
	for _, p := range of {
		switch {
		case p.Number < 1 || p.Number > math.MaxUint16:
			fault = fmt.Sprintf("target port %d is none, and is left out", p.Number)
		case slices.Contains(ports, p.Number): // it is one endpoint all the same
		case len(ports) == maxPorts:
			return ports, fmt.Sprintf("there are %d target ports, and those after the first %d are left out", len(of), maxPorts)
		default:
			ports = append(ports, p.Number)
		}
	}
	return ports, fault
}

// maxFaults bounds the faults that are told of a pool.
const maxFaults = 64

func (s *PoolState) fault(pod, what string) {
	if what != "" {
		s.Faults = append(s.Faults, Fault{pod, what})
	}
}

// settleFaults puts the faults in order, and leaves out what is too many.
func (s *PoolState) settleFaults() {
	slices.SortFunc(s.Faults, func(a, b Fault) int { return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.What, b.What)) })
	if n := len(s.Faults); n > maxFaults {
		s.Faults, s.MoreFaults = slices.Clone(s.Faults[:maxFaults]), n-maxFaults
	}
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
