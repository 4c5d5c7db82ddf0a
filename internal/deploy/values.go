package deploy

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// value is one of the chart's values.
type value struct {
	name, comment string
	value         any
}

// values are the options as the chart has them.
func (o *Options) values() []value {
	name := o.Name
	if name == o.Pool+"-epp" {
		name = "" // so that it follows the pool's in another values file
	}
	gatewayNamespace, gateway := o.gateway()
	return []value{
		{"pool", "The InferencePool's name.", o.Pool},
		{"name", "The name of everything else; empty for the pool's name and -epp.", name},
		{"selector", "The labels of the model servers' pods.", o.Selector},
		{"targetPorts", "The ports on which they serve, 1 to 8; each is an endpoint of its own.", o.TargetPorts},
		{"replicas", "How many pickers run.", o.Replicas},
		{"leaderElect", "One of them picks and the others stand by; else all pick.", o.LeaderElect},
		{"image", "", o.Image},
		{"config", "The picker's settings, as 'eppctl serve --config' takes them.", map[string]any{"preset": o.Preset}},
		{"plaintext", "No TLS between gateway and picker.", o.Plaintext},
		{"adminAuth", "Serve the admin API in the cluster, to callers whose token may.", o.AdminAuth},
		{"reportTokenSecret", "A Secret whose key \"token\" model servers show with their reports, and replicas to each\nother; empty for neither.", o.ReportTokenSecret},
		{"gateway", "The Gateway of an HTTPRoute to the pool; empty for no HTTPRoute.", gateway},
		{"gatewayNamespace", "The Gateway's namespace; empty for the same one.", gatewayNamespace},
		{"gatewayClass", "Make the Gateway too, and what it needs: " + strings.Join(GatewayClasses, ", ") + ".", o.GatewayClass},
		{"monitor", "Let the Prometheus operator read the metrics: service, pod or none.", o.Monitor},
		{"prometheusNamespace", "The namespace whose pods may read the metrics.", o.PrometheusNamespace},
		{"cpu", "The request of each picker.", o.CPU},
		{"memory", "The request and the limit of each picker, and about 90 % of it for Go's collector.", o.Memory},
		{"goMemoryLimit", "", o.goMemoryLimit()},
	}
}

// valuesFile is the chart's values.yaml.
func (o *Options) valuesFile() (string, error) {
	var b strings.Builder
	for _, v := range o.values() {
		if v.comment != "" {
			fmt.Fprintf(&b, "# %s\n", strings.ReplaceAll(v.comment, "\n", "\n# "))
		}
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
