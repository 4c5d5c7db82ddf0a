package deploy

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// value is one of the chart's values.
type value struct {
	name, comment string
	value         any
	schema        schema // what it may be, as [Options.Validate] says
}

// values are the options as the chart has them, and what there is to choose about an
// install by Helm beside them.
func (o *Options) values() []value {
	return slices.Concat(o.poolValues(), o.pickerValues(), o.podValues())
}

func (o *Options) poolValues() []value {
	name := o.Name
	if name == o.Pool+"-epp" {
		name = "" // so that it follows the pool's in another values file
	}
	selector := o.Selector
	if selector == nil {
		selector = map[string]string{} // null would be no selector, but its absence
	}
	gatewayNamespace, gateway := o.gateway()
	return []value{
		{"pool", "The InferencePool's name.", o.Pool, named(label, maxLabel)},
		{"name", "The name of everything else; empty for the pool's name and -epp.", name, optional(serviceDNS, maxName)},
		{"selector", "The labels of the model servers' pods. Helm adds those of other files to these; null takes one\naway.", selector, o.selectorSchema()},
		{"targetPorts", "The ports on which they serve, 1 to 8; each is an endpoint of its own.", o.TargetPorts, ports(1, maxPorts)},
		{"gateway", "The Gateway of an HTTPRoute to the pool; empty for no HTTPRoute.", gateway, optional(subdomain, maxSubdomain)},
		{"gatewayNamespace", "The Gateway's namespace; empty for the same one.", gatewayNamespace, optional(label, maxLabel)},
		{"gatewayClass", "Make the Gateway too, and what it needs: " + strings.Join(GatewayClasses, ", ") + ".", o.GatewayClass, enum(append([]string{""}, GatewayClasses...)...)},
	}
}

func (o *Options) pickerValues() []value {
	return []value{
		{"replicas", "How many pickers run.", o.Replicas, integer(1, maxReplicas)},
		{"leaderElect", "One of them picks and the others stand by; else all pick.", o.LeaderElect, boolean()},
		{"image", "The picker's image.", o.Image, named(image, maxImage)},
		{"imagePullPolicy", "When it is pulled: Always, IfNotPresent or Never; empty for Kubernetes' own choice.", "", enum("", "Always", "IfNotPresent", "Never")},
		{"imagePullSecrets", "Secrets of the image's registry: [{name: registry}].", []any{}, list(anyObject())},
		{"config", "The picker's settings, as 'eppctl serve --config' takes them.", map[string]any{"preset": o.Preset}, settings()},
		{"extraArgs", "More flags of 'eppctl serve'.", []any{}, list(schema{"type": "string", "pattern": `^--[^\n]+$`})},
		{"env", "More variables of the container, as Kubernetes has them.", []any{}, env()},
		{"drainSeconds", "At its end a picker serves on for so long while the gateway may not know; then requests get as\nlong to finish. The pod's grace period follows it.", 30, integer(0, 3600)},
		{"plaintext", "No TLS between gateway and picker.", o.Plaintext, boolean()},
		{"adminAuth", "Serve the admin API in the cluster, to callers whose token may.", o.AdminAuth, boolean()},
		{"reportTokenSecret", "A Secret whose key \"token\" model servers show with their reports, and replicas to each\nother; empty for neither.", o.ReportTokenSecret, optional(subdomain, maxSubdomain)},
		{"tlsSecret", "A Secret with a certificate and its key (tls.crt, tls.key) for all ports that speak TLS, and with\nit the one for reports does; empty for certificates that are made at each start.", o.TLSSecret, optional(subdomain, maxSubdomain)},
		{"monitor", "Let the Prometheus operator read the metrics: service, pod or none.", o.Monitor, enum(Monitors...)},
		{"prometheusNamespace", "The namespace whose pods may read the metrics.", o.PrometheusNamespace, named(label, maxLabel)},
		{"restrictEgress", "Let the picker connect to the model servers, the API server, DNS and other replicas alone.", o.RestrictEgress, boolean()},
		{"apiServerPorts", "The ports of the API server that restrictEgress leaves open.", []int{443, 6443}, ports(1, maxPorts)},
	}
}

func (o *Options) podValues() []value {
	return []value{
		{"cpu", "The processors that each picker requests.", o.CPU, amount(cpu.String())},
		{"cpuLimit", "The most processors that each gets; empty for no limit.", "", amount("^$|" + cpu.String())},
		{"memory", "The request and the limit of each picker, in Mi or Gi; Go's collector keeps to some 94 % of it.", o.Memory, named(memory, maxLabel)},
		{"priorityClass", "The name of a PriorityClass; empty for the usual one.", "", optional(subdomain, maxSubdomain)},
		{"labels", "More labels, of every object and of the pods.", map[string]any{}, labels(nameLabel, instanceLabel, poolLabel)},
		{"podAnnotations", "More annotations of the pods.", map[string]any{}, annotations("checksum/config")},
		{"nodeSelector", "Where the pods may run. Several are spread over nodes and zones.", map[string]any{}, anyObject()},
		{"tolerations", "Taints of nodes that they tolerate.", []any{}, list(anyObject())},
		{"affinity", "Nodes and pods that they should be near to, or far from.", map[string]any{}, anyObject()},
		{"volumes", "More volumes of the pods, for files that flags name.", []any{}, volumes()},
		{"volumeMounts", "Where the container has them.", []any{}, list(anyObject())},
	}
}

// valuesFile is the chart's values.yaml.
func (o *Options) valuesFile() (string, error) {
	var b strings.Builder
	for _, v := range o.values() {
		fmt.Fprintf(&b, "# %s\n", strings.ReplaceAll(v.comment, "\n", "\n# "))
		line, err := yaml.Marshal(map[string]any{v.name: v.value})
		if err != nil {
			return "", err
		}
		b.Write(line)
	}
	return b.String(), nil
}

// data are what the templates see: what Helm would read of the values' file.
func (o *Options) data() (map[string]any, error) {
	file, err := o.valuesFile()
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(file), &values); err != nil {
		return nil, err
	}
	return map[string]any{
		"Values":  values,
		"Release": map[string]any{"Namespace": o.Namespace},
	}, nil
}
