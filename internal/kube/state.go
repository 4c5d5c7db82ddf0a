package kube

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/eppctl/eppctl/internal/pool"
)

// Name names an object in a namespace.
type Name struct{ Namespace, Name string }

// String is the name as flags take it.
func (n Name) String() string { return n.Namespace + "/" + n.Name }

// ParseName reads NAMESPACE/NAME, or NAME alone in the given namespace.
func ParseName(text, namespace string) (Name, error) {
	n := Name{namespace, text}
	if before, after, ok := strings.Cut(text, "/"); ok {
		n = Name{before, after}
	}
	if n.Namespace == "" || n.Name == "" || strings.Contains(n.Name, "/") {
		return n, fmt.Errorf("%q must have the form NAMESPACE/NAME, or NAME", text)
	}
	return n, n.Check()
}

// maxObjectName bounds the name of an object, in bytes.
const maxObjectName = 253

// Check says why no object can have the name.
func (n Name) Check() error {
	for _, part := range []string{n.Namespace, n.Name} {
		if len(validation.IsDNS1123Subdomain(part)) > 0 {
			return fmt.Errorf("nothing in a cluster can be called %q: names have lower-case letters, digits, '-' and '.', and at most %d of them", part, maxObjectName)
		}
	}
	return nil
}

// possible reports whether an object can have the name.
func (n Name) possible() bool { return n.Check() == nil }

// WatchConfig says what is watched, and who is told.
type WatchConfig struct {
	Pools []Name
	// Settings is the ConfigMap with the picker's settings; the zero Name is the one
	// that the first pool's annotation names, if any.
	Settings Name
	Logger   *slog.Logger
	// Update is told of each change, one call at a time. It must not keep the caller.
	Update func(*State)
}

// State is what is known of the pools. It is never changed once it was handed out.
type State struct {
	Pools []PoolState // as they were asked for
	// Members are the endpoints of all pools, by pod and port.
	Members []pool.Member
	// Models and Rewrites are those of the pools' namespaces, by namespace and name,
	// whichever pool they refer to; their TypeMeta tells the group. None when their
	// types are not installed.
	Models   []*InferenceModel
	Rewrites []*InferenceModelRewrite
	// Settings is the ConfigMap with the picker's settings.
	Settings SettingsMap
	// SettingsKnown: what Settings says was read, and is no guess.
	SettingsKnown bool
	// Synced: pools, pods, models and rewrites were all read once, or are known not to
	// be there. It stays true when the API server goes away.
	Synced bool
}

// PoolState is one of the pools.
type PoolState struct {
	Name Name
	Pool *InferencePool // nil: there is none
	// Pods is how many of its pods have an address, Ready how many of them are ready.
	Pods, Ready int
	// Faults are what the pool and its pods say that can't be followed, by pod. What
	// was left out of them is counted.
	Faults     []Fault
	MoreFaults int
}

// Fault is what can't be followed.
type Fault struct {
	Pod  string // as members are named; "" = the pool itself says it
	What string // with what follows from it
}

// SettingsMap is the ConfigMap with settings.
type SettingsMap struct {
	Name  Name   // zero: nobody named one
	Found bool   // it is there, with the key
	YAML  string // its key eppctl.yaml
}

// Problem is what keeps a watch from being up to date.
type Problem struct {
	What   string    // such as "pods of serving"
	Reason string    // with what to do about it
	Since  time.Time // of its first failure in a row
	// Forbidden: it lasts until somebody gives the rights.
	Forbidden bool
}
