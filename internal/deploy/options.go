package deploy

import (
	"strings"
)

// Options are what there is to choose about the install of a pool's picker. The
// names in the errors of [Options.Validate] are those of the command's flags.
type Options struct {
	Version   string // of this program, for the chart; "" for none
	Namespace string

	Pool        string
	Selector    map[string]string // labels of the model servers' pods
	TargetPorts []int             // 1 to 8

	Name     string // of everything but the pool; "" for the pool's and -epp
	Image    string
	Replicas int
	Preset   string
	CPU      string // a quantity, the request
	Memory   string // a quantity in Mi or Gi, request and limit

	LeaderElect       bool
	AdminAuth         bool
	Plaintext         bool
	ReportTokenSecret string // "" for no reports and no exchange between replicas
	TLSSecret         string // "" for certificates that are made at the start, and no TLS for reports

	Gateway      string // [NAMESPACE/]NAME of an HTTPRoute's parent; "" for no HTTPRoute
	GatewayClass string // one of GatewayClasses, makes the Gateway too; "" for none

	Monitor             string // one of Monitors
	PrometheusNamespace string
	RestrictEgress      bool // the picker connects to model servers, API server, DNS and replicas alone

	Only, Skip []string // kinds
}

// GatewayClasses are the gateways for which there is more than an HTTPRoute.
var GatewayClasses = []string{"agentgateway", "envoy-gateway", "gke", "istio", "kgateway"}

// Monitors are what can have the Prometheus operator read the metrics.
var Monitors = []string{"service", "pod", "none"}

// Image is the published one of a version of this program, the newest for a build that
// has none.
func Image(version string) string {
	tag := strings.TrimPrefix(version, "v")
	if !release.MatchString(tag) {
		tag = "latest"
	}
	return "ghcr.io/eppctl/eppctl:" + tag
}

// Default are the options that need not be given.
func Default() Options {
	return Options{
		TargetPorts: []int{8000},
		Image:       Image(""),
		Replicas:    1,
		Preset:      "default",
		CPU:         "500m",
		Memory:      "2Gi",
		Monitor:     "none", PrometheusNamespace: "monitoring",
	}
}

// name is the one of everything but the pool.
func (o *Options) name() string {
	if o.Name != "" {
		return o.Name
	}
	return o.Pool + "-epp"
}

// gateway is the parent of the HTTPRoute.
func (o *Options) gateway() (namespace, name string) {
	if namespace, name, ok := strings.Cut(o.Gateway, "/"); ok {
		return namespace, name
	}
	return "", o.Gateway
}
