package patrol

import (
	"cmp"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
)

// maxEndpoints bounds the pods that a picker's page makes.
const maxEndpoints = 4096

// endpoint is a pod as its picker's page tells it.
type endpoint struct {
	name, port string
	listed     bool // it is among those that the picker has
	queue      *float64
	health     *float64
	load       *float64
	picks      []float64 // by window; nil when not known
	share      *float64
}

// address is the host:port of a page.
func address(page string) string {
	u, err := url.Parse(page)
	if err != nil {
		return page
	}
	port := cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80")
	return net.JoinHostPort(u.Hostname(), port)
}

// join finds the endpoint of each engine: that of its pod's name, as given or as found
// before, that of its host's name, or the only one left with its port. Engines without
// one have nil.
func join(engines []Engine, names []string, endpoints map[string]*endpoint) []*endpoint {
	joined, taken := make([]*endpoint, len(engines)), map[string]bool{}
	take := func(i int, name string) {
		if e := endpoints[name]; e != nil && joined[i] == nil && !taken[name] {
			joined[i], taken[name] = e, true
		}
	}
	for i, name := range names {
		take(i, name)
		take(i, name+"-rank-0") // llm-d's name for the first port of a pod
	}
	for i, e := range engines {
		host, _, err := net.SplitHostPort(address(e.URL))
		if err != nil || e.Name != "" {
			continue
		}
		take(i, host)
		if net.ParseIP(host) == nil { // pod.service.namespace
			label, _, _ := strings.Cut(host, ".")
			take(i, label)
		}
	}
	byPort := engineOfPort(engines, joined)
	for port, name := range endpointOfPort(endpoints, taken) {
		if i, there := byPort[port]; there && i >= 0 && name != "" {
			take(i, name)
		}
	}
	return joined
}

// engineOfPort are the engines that have no endpoint and no name yet, by their port;
// −1 where there are several.
func engineOfPort(engines []Engine, joined []*endpoint) map[string]int {
	by := map[string]int{}
	for i, e := range engines {
		_, port, err := net.SplitHostPort(address(e.URL))
		if err != nil || joined[i] != nil || e.Name != "" {
			continue
		}
		if _, seen := by[port]; seen {
			i = -1
		}
		by[port] = i
	}
	return by
}

// endpointOfPort are the endpoints that are not taken, by their port; "" where there
// are several.
func endpointOfPort(endpoints map[string]*endpoint, taken map[string]bool) map[string]string {
	by := map[string]string{}
	for name, e := range endpoints {
		if e.port == "" || taken[name] {
			continue
		}
		if _, seen := by[e.port]; seen {
			name = ""
		}
		by[e.port] = name
	}
	return by
}

// apart are the endpoints that no engine is joined with, by name.
func apart(endpoints map[string]*endpoint, joined []*endpoint) []*endpoint {
	left := maps.Clone(endpoints)
	for _, e := range joined {
		if e != nil {
			delete(left, e.name)
		}
	}
	return slices.SortedFunc(maps.Values(left), func(a, b *endpoint) int { return cmp.Compare(a.name, b.name) })
}
