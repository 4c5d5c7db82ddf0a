package kvfeed

import (
	"net"
	"net/url"
	"slices"
	"strings"
)

// places finds targets by what is said of where they are. It does not change once
// it is in use.
type places struct {
	at    map[string][]*watch // by the host of the base URL
	named map[string][]*watch // by what a topic may call it: its name or host, with and without the port
}

func newPlaces() *places {
	return &places{at: map[string][]*watch{}, named: map[string][]*watch{}}
}

func (p *places) add(w *watch) {
	host := plainHost(hostOf(w.target.BaseURL))
	p.at[host] = append(p.at[host], w)
	port := portOf(w.target.BaseURL)
	names := []string{w.target.Name, host, net.JoinHostPort(w.target.Name, port), net.JoinHostPort(host, port)}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		p.named[name] = append(p.named[name], w)
	}
}

// whose is the target whose connection comes from a host: the one that is there.
// Where several are, or none, it is the one that the topic names, and nil when that
// is not exactly one.
func (p *places) whose(host string, topic []byte) *watch {
	there := p.at[host]
	if len(there) == 1 {
		return there[0]
	}
	pod, ok := podOf(string(topic[:min(len(topic), maxTopic)]))
	if !ok {
		return nil
	}
	var fitting *watch
	for _, w := range p.named[pod] {
		if len(there) > 0 && !slices.Contains(there, w) {
			continue
		}
		if fitting != nil {
			return nil
		}
		fitting = w
	}
	return fitting
}

// knows reports whether a topic names a target, or none at all.
func (p *places) knows(topic string) bool {
	pod, ok := podOf(topic)
	if !ok {
		return true
	}
	if host, _, err := net.SplitHostPort(pod); err == nil {
		pod = host
	}
	return len(p.named[plainHost(pod)]) > 0
}

// podOf is the pod that a topic such as kv@10.0.0.7:8000@model names.
func podOf(topic string) (pod string, ok bool) {
	rest, ok := strings.CutPrefix(topic, "kv@")
	pod, _, _ = strings.Cut(rest, "@")
	return pod, ok
}

// hostOf is the host of a base URL; "" when it is none.
func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// portOf is its port.
func portOf(base string) string {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return ""
	case u.Port() == "" && u.Scheme == "https":
		return "443"
	case u.Port() == "":
		return "80"
	}
	return u.Port()
}
